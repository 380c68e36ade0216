/* DER (X.690), as far as certificates and requests for them need it. */

const SEQUENCE = 0x30;
const SET = 0x31;
const BOOLEAN = 0x01;
const INTEGER = 0x02;
const BIT_STRING = 0x03;
const OCTET_STRING = 0x04;
const OBJECT_IDENTIFIER = 0x06;
const UTF8_STRING = 0x0c;
const UTC_TIME = 0x17;
const GENERALIZED_TIME = 0x18;

type Bytes = Uint8Array | readonly number[];

export const sequence = (...parts: readonly Bytes[]): Uint8Array => element(SEQUENCE, ...parts);
export const set = (...parts: readonly Bytes[]): Uint8Array => element(SET, ...parts);
export const boolean = (value: boolean): Uint8Array => element(BOOLEAN, [value ? 0xff : 0]);
/** Two's complement, the most significant byte first. */
export const integer = (bytes: Bytes): Uint8Array => element(INTEGER, bytes);
/** Of the last byte, `unusedBits` are no part of the string. */
export const bitString = (bytes: Bytes, unusedBits = 0): Uint8Array => element(BIT_STRING, [unusedBits], bytes);
export const octetString = (bytes: Bytes): Uint8Array => element(OCTET_STRING, bytes);
export const utf8String = (text: string): Uint8Array => element(UTF8_STRING, new TextEncoder().encode(text));

/** An object identifier such as `2.5.4.3`. */
export function objectIdentifier(dotted: string): Uint8Array {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return element(OBJECT_IDENTIFIER, [first * 40 + second, ...rest.flatMap(base128)]);
}

/** To the second. UTCTime (two digits for the year) up to 2049, GeneralizedTime (four digits) from then on (RFC 5280). */
export function time(epochMs: number): Uint8Array {
  const date = new Date(epochMs);
  const text = date.toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  const isShort = date.getUTCFullYear() < 2050;
  return element(isShort ? UTC_TIME : GENERALIZED_TIME, new TextEncoder().encode(isShort ? text.slice(2) : text));
}

/** A DER element: its tag, its length and its content. */
export function element(tag: number, ...content: readonly Bytes[]): Uint8Array {
  const bytes = content.flatMap((part) => [...part]);
  return Uint8Array.from([tag, ...lengthOf(bytes.length), ...bytes]);
}

/** Up to 127 in one byte; otherwise the number of the bytes that follow, and these. */
function lengthOf(length: number): readonly number[] {
  if (length < 0x80) return [length];
  const bytes = length < 0x100 ? [length] : [length >> 8, length & 0xff];
  return [0x80 | bytes.length, ...bytes];
}

/** A number in groups of seven bits. The eighth bit is set in all groups but the last. */
function base128(value: number): readonly number[] {
  const groups = [value & 0x7f];
  for (let rest = value >> 7; rest > 0; rest >>= 7) groups.unshift((rest & 0x7f) | 0x80);
  return groups;
}
