/*
 * The wire format of D-Bus, in little-endian order, as far as calls to systemd need it: every type of one byte to eight
 * bytes, texts, arrays, structs, dictionaries and variants; no file descriptors.
 * https://dbus.freedesktop.org/doc/dbus-specification.html#message-protocol
 */

/** A value of a D-Bus type: 64-bit numbers are bigints, arrays and structs are lists, a dictionary is a list of pairs. */
export type DbusValue = string | number | bigint | boolean | DbusVariant | readonly DbusValue[];

/** A value that carries its type, as a signature of D-Bus: `t`, `as`. */
export interface DbusVariant {
  readonly signature: string;
  readonly value: DbusValue;
}

/** The kinds of messages, by their numbers on the wire. */
const KINDS = ["invalid", "call", "return", "error", "signal"] as const;
type DbusKind = (typeof KINDS)[number];

export interface DbusMessage {
  readonly kind: DbusKind;
  /** The sender's number of the message; a reply names that of its call as `replySerial`. */
  readonly serial: number;
  readonly path?: string;
  readonly interface?: string;
  readonly member?: string;
  readonly errorName?: string;
  readonly replySerial?: number;
  readonly destination?: string;
  readonly sender?: string;
  /** The types of the body. */
  readonly signature: string;
  /** The bytes of the body: most messages on a bus are of no interest, and are not decoded. */
  readonly body: Uint8Array;
}

/** The header fields that a message may have, and their type. */
const FIELDS = {
  path: { code: 1, signature: "o" },
  interface: { code: 2, signature: "s" },
  member: { code: 3, signature: "s" },
  errorName: { code: 4, signature: "s" },
  replySerial: { code: 5, signature: "u" },
  destination: { code: 6, signature: "s" },
  sender: { code: 7, signature: "s" },
  signature: { code: 8, signature: "g" },
} as const;
type Field = keyof typeof FIELDS;
const FIELD_NAMES = Object.keys(FIELDS) as readonly Field[];

const LITTLE_ENDIAN = "l".charCodeAt(0);
const PROTOCOL_VERSION = 1;
/** Byte order, kind, flags, version, length of the body, serial, length of the header fields. */
const FIXED_BYTES = 16;
/** The specification's limit of arrays within arrays. */
const MAX_DEPTH = 32;
/** The specification's limit of arrays, structs and variants within each other. */
const MAX_TOTAL_DEPTH = 64;
/** The specification's limit of a message. */
const MAX_MESSAGE_BYTES = 128 * 1024 * 1024;

/** The bytes of a message. `body` are the values of `signature`, one for each complete type. */
export function encodeMessage(
  message: Omit<DbusMessage, "body" | "signature"> & { readonly signature?: string },
  body: readonly DbusValue[] = [],
): Uint8Array {
  const { kind, serial, signature = "" } = message;
  const encodedBody = encodeValues(signature, body);
  const present: Partial<Record<Field, string | number | undefined>> = {
    ...message,
    signature: signature || undefined,
  };
  const fields = FIELD_NAMES.flatMap((name): readonly DbusValue[] => {
    const value = present[name];
    return value === undefined ? [] : [[FIELDS[name].code, { signature: FIELDS[name].signature, value }]];
  });
  const fixed = [LITTLE_ENDIAN, KINDS.indexOf(kind), 0, PROTOCOL_VERSION, encodedBody.length, serial, fields];
  const header = encodeValues("yyyyuua(yv)", fixed);
  return Buffer.concat([header, new Uint8Array(padding(header.length, 8)), encodedBody]);
}

/**
 * The first message of what has arrived, and how many bytes it takes; undefined if it is not complete yet. Throws an Error
 * for bytes that are no message.
 */
export function decodeMessage(
  bytes: Uint8Array,
): { readonly message: DbusMessage; readonly length: number } | undefined {
  if (bytes.length < FIXED_BYTES) return undefined;
  if (bytes[0] !== LITTLE_ENDIAN || bytes[3] !== PROTOCOL_VERSION)
    throw new Error("no message of D-Bus, version 1, in little-endian order");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [bodyLength, serial, fieldsLength] = [4, 8, 12].map((at) => view.getUint32(at, true)) as [
    number,
    number,
    number,
  ];
  const headerLength = FIXED_BYTES + fieldsLength;
  const bodyStart = headerLength + padding(headerLength, 8);
  const length = bodyStart + bodyLength;
  if (length > MAX_MESSAGE_BYTES) throw new Error(`a message of ${length} bytes; D-Bus allows ${MAX_MESSAGE_BYTES}`);
  if (bytes.length < length) return undefined;
  const [fields] = decodeValues("a(yv)", bytes.subarray(0, headerLength), FIXED_BYTES - 4) as [[number, DbusVariant][]];
  const named = fields.flatMap(([code, { signature, value }]) => {
    const name = FIELD_NAMES.find((each) => FIELDS[each].code === code);
    if (name === undefined) return [];
    const expected = FIELDS[name].signature;
    if (signature !== expected)
      throw new Error(`header field ${code} of D-Bus has the type "${signature}", not "${expected}"`);
    return [[name, value] as const];
  });
  const message = {
    kind: KINDS[bytes[1] ?? 0] ?? "invalid",
    serial,
    signature: "",
    ...Object.fromEntries(named),
    body: bytes.slice(bodyStart, length),
  };
  return { message, length };
}

/** The values of a message's body. Throws an Error if the bytes do not match the signature. */
export function bodyOf({ signature, body }: Pick<DbusMessage, "signature" | "body">): readonly DbusValue[] {
  return decodeValues(signature, body, 0);
}

/** The complete types of a signature: `sa(sv)u` has `s`, `a(sv)` and `u`. */
function typesOf(signature: string): readonly string[] {
  const types: string[] = [];
  for (let at = 0; at < signature.length; ) {
    const end = endOfType(signature, at);
    types.push(signature.slice(at, end));
    at = end;
  }
  return types;
}

function endOfType(signature: string, start: number): number {
  let at = start;
  while (signature[at] === "a") at += 1;
  if (at - start > MAX_DEPTH) throw new Error("a type of D-Bus has too many levels");
  if (signature[at] !== "(" && signature[at] !== "{") {
    if (at >= signature.length) throw new Error(`"${signature}" ends within a type`);
    return at + 1;
  }
  for (let depth = 0; at < signature.length; at++) {
    if ("({".includes(signature[at] ?? "")) depth += 1;
    if (")}".includes(signature[at] ?? "")) depth -= 1;
    if (depth === 0) return at + 1;
  }
  throw new Error(`"${signature}" ends within a type`);
}

const padding = (length: number, alignment: number) => (alignment - (length % alignment)) % alignment;

const ALIGNMENTS: Readonly<Record<string, number>> = {
  ...{ y: 1, g: 1, v: 1, n: 2, q: 2, b: 4, i: 4, u: 4, s: 4, o: 4, a: 4, h: 4, x: 8, t: 8, d: 8, "(": 8, "{": 8 },
};

function alignmentOf(type: string): number {
  const alignment = ALIGNMENTS[type.charAt(0)];
  if (alignment === undefined) throw new Error(`"${type}" is no type of D-Bus`);
  return alignment;
}

interface NumberType {
  readonly bytes: number;
  write(view: DataView, at: number, value: DbusValue): void;
  read(view: DataView, at: number): DbusValue;
}

const NUMBERS: Readonly<Record<string, NumberType>> = {
  y: { bytes: 1, write: (view, at, value) => view.setUint8(at, Number(value)), read: (view, at) => view.getUint8(at) },
  n: {
    bytes: 2,
    write: (view, at, value) => view.setInt16(at, Number(value), true),
    read: (view, at) => view.getInt16(at, true),
  },
  q: {
    bytes: 2,
    write: (view, at, value) => view.setUint16(at, Number(value), true),
    read: (view, at) => view.getUint16(at, true),
  },
  b: {
    bytes: 4,
    write: (view, at, value) => view.setUint32(at, value === true ? 1 : 0, true),
    read: (view, at) => view.getUint32(at, true) === 1,
  },
  i: {
    bytes: 4,
    write: (view, at, value) => view.setInt32(at, Number(value), true),
    read: (view, at) => view.getInt32(at, true),
  },
  u: {
    bytes: 4,
    write: (view, at, value) => view.setUint32(at, Number(value), true),
    read: (view, at) => view.getUint32(at, true),
  },
  h: {
    bytes: 4,
    write: (view, at, value) => view.setUint32(at, Number(value), true),
    read: (view, at) => view.getUint32(at, true),
  },
  x: {
    bytes: 8,
    write: (view, at, value) => view.setBigInt64(at, BigInt(value as bigint), true),
    read: (view, at) => view.getBigInt64(at, true),
  },
  t: {
    bytes: 8,
    write: (view, at, value) => view.setBigUint64(at, BigInt(value as bigint), true),
    read: (view, at) => view.getBigUint64(at, true),
  },
  d: {
    bytes: 8,
    write: (view, at, value) => view.setFloat64(at, Number(value), true),
    read: (view, at) => view.getFloat64(at, true),
  },
};

function encodeValues(signature: string, values: readonly DbusValue[]): Uint8Array {
  const bytes: number[] = [];
  const align = (alignment: number) => {
    for (let left = padding(bytes.length, alignment); left > 0; left--) bytes.push(0);
  };
  const pushNumber = (type: string, value: DbusValue) => {
    const number = NUMBERS[type];
    if (number === undefined) throw new Error(`"${type}" is no number of D-Bus`);
    align(number.bytes);
    const view = new DataView(new ArrayBuffer(number.bytes));
    number.write(view, 0, value);
    bytes.push(...new Uint8Array(view.buffer));
  };
  const pushText = (text: string, lengthType: "u" | "y") => {
    const encoded = Buffer.from(text);
    pushNumber(lengthType, encoded.length);
    bytes.push(...encoded, 0);
  };
  const pushArray = (elementType: string, elements: readonly DbusValue[]) => {
    pushNumber("u", 0);
    const lengthAt = bytes.length - 4;
    // The padding in front of the first element is not counted.
    align(alignmentOf(elementType));
    const start = bytes.length;
    for (const element of elements) push(elementType, element);
    const length = new Uint8Array(new Uint32Array([bytes.length - start]).buffer);
    for (const [index, byte] of length.entries()) bytes[lengthAt + index] = byte;
  };
  const pushVariant = ({ signature: type, value }: DbusVariant) => {
    pushText(type, "y");
    push(type, value);
  };
  const pushStruct = (type: string, members: readonly DbusValue[]) => {
    align(8);
    pushAll(type.slice(1, -1), members);
  };
  const push = (type: string, value: DbusValue) => {
    const kind = type.charAt(0);
    if (kind === "s" || kind === "o") pushText(String(value), "u");
    else if (kind === "g") pushText(String(value), "y");
    else if (kind === "a") pushArray(type.slice(1), value as readonly DbusValue[]);
    else if (kind === "v") pushVariant(value as DbusVariant);
    else if (kind === "(" || kind === "{") pushStruct(type, value as readonly DbusValue[]);
    else pushNumber(kind, value);
  };
  const pushAll = (types: string, all: readonly DbusValue[]) => {
    for (const [index, type] of typesOf(types).entries()) {
      const value = all[index];
      if (value === undefined) throw new Error(`"${types}" has more types than there are values`);
      push(type, value);
    }
  };
  pushAll(signature, values);
  return Uint8Array.from(bytes);
}

function decodeValues(signature: string, bytes: Uint8Array, start: number): readonly DbusValue[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = start;
  const align = (alignment: number) => {
    at += padding(at, alignment);
  };
  const readNumber = (type: string): DbusValue => {
    const number = NUMBERS[type];
    if (number === undefined) throw new Error(`"${type}" is no number of D-Bus`);
    align(number.bytes);
    if (at + number.bytes > bytes.length) throw new Error("a number of D-Bus is longer than its message");
    const value = number.read(view, at);
    at += number.bytes;
    return value;
  };
  const readText = (lengthType: "u" | "y"): string => {
    const length = Number(readNumber(lengthType));
    const end = at + length;
    if (end >= bytes.length) throw new Error("a text of D-Bus is longer than its message");
    if (bytes[end] !== 0) throw new Error("a text of D-Bus does not end with a zero byte");
    const text = Buffer.from(bytes.subarray(at, end)).toString("utf8");
    at = end + 1;
    return text;
  };
  const readArray = (elementType: string): readonly DbusValue[] => {
    const length = Number(readNumber("u"));
    align(alignmentOf(elementType));
    const end = at + length;
    if (end > bytes.length) throw new Error("an array of D-Bus is longer than its message");
    const elements: DbusValue[] = [];
    while (at < end) {
      const before = at;
      elements.push(read(elementType));
      if (at === before) throw new Error(`"${elementType}" is a type of D-Bus without bytes`);
    }
    if (at > end) throw new Error("an element of an array of D-Bus is longer than the array");
    return elements;
  };
  const readVariant = (): DbusVariant => {
    const type = readText("y");
    if (endOfType(type, 0) !== type.length) throw new Error(`a variant of D-Bus has more than one type: "${type}"`);
    return { signature: type, value: read(type) };
  };
  const readContainer = (type: string): DbusValue => {
    if (type.startsWith("a")) return readArray(type.slice(1));
    if (type.startsWith("v")) return readVariant();
    align(8);
    return typesOf(type.slice(1, -1)).map(read);
  };
  let depth = 0;
  const read = (type: string): DbusValue => {
    const kind = type.charAt(0);
    if (kind === "s" || kind === "o") return readText("u");
    if (kind === "g") return readText("y");
    if (!"av({".includes(kind)) return readNumber(kind);
    depth += 1;
    if (depth > MAX_TOTAL_DEPTH) throw new Error("a value of D-Bus has too many levels");
    const value = readContainer(type);
    depth -= 1;
    return value;
  };
  return typesOf(signature).map(read);
}
