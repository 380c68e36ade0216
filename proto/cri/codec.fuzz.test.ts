import { expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import {
  create,
  createFileRegistry,
  type DescField,
  type DescMessage,
  fromBinary,
  ScalarType,
  toBinary,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { leastCount } from "../../test/fakes/least-count.ts";
import { isProgrammingError } from "../../test/programming-error.ts";
import * as api from "./gen/api.ts";
import * as containerdContainers from "./gen/containerd-containers.ts";
import * as containerdEvents from "./gen/containerd-events.ts";
import * as containerdTasks from "./gen/containerd-tasks.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

interface Codec {
  encode(message: unknown): { finish(): Uint8Array };
  decode(bytes: Uint8Array): object;
  fromPartial(partial: unknown): unknown;
}

/** The oracle: @bufbuild/protobuf reads the same .proto files with an implementation of its own. */
function readProtos(): readonly DescMessage[] {
  const buf = fileURLToPath(new URL("../../node_modules/.bin/buf", import.meta.url));
  const here = fileURLToPath(new URL(".", import.meta.url));
  const descriptors = execFileSync(buf, ["build", here, "-o", "-#format=binpb"], { maxBuffer: 2 ** 24 });
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, descriptors));
  return [...registry.files].flatMap(({ messages }) => messages);
}

const messages = readProtos();
const codecs = { ...api, ...containerdContainers, ...containerdEvents, ...containerdTasks } as unknown as Readonly<
  Record<string, Codec>
>;
const ourCodec = ({ name }: DescMessage): Codec => {
  const found = codecs[name];
  if (found === undefined) throw new Error(`no codec for ${name}`);
  return found;
};

type Value = string | number | boolean | bigint | Uint8Array | undefined | readonly Value[] | { [key: string]: Value };

/** Values in our codec's form: every field is present, absent messages are undefined. */
function messageValue(type: DescMessage, depth = 0): fc.Arbitrary<{ [key: string]: Value }> {
  const fields = Object.fromEntries(type.fields.map((field) => [field.localName, fieldValue(field, depth)]));
  return fc.record(fields) as fc.Arbitrary<{ [key: string]: Value }>;
}

function fieldValue(field: DescField, depth: number): fc.Arbitrary<Value> {
  switch (field.fieldKind) {
    case "map":
      return fc.dictionary(
        text.filter((key) => key !== "__proto__"),
        single(field, depth),
        { maxKeys: 3 },
      );
    case "list":
      return fc.array(single(field, depth), { maxLength: 3 });
    case "message":
      return depth > 3 ? fc.constant(undefined) : fc.option(single(field, depth), { nil: undefined });
    default:
      return single(field, depth);
  }
}

const text = fc.string({ unit: "grapheme", maxLength: 12 });

function single({ message, enum: enumeration, scalar }: DescField, depth: number): fc.Arbitrary<Value> {
  if (message !== undefined) return messageValue(message, depth + 1);
  if (enumeration !== undefined) return fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  switch (scalar) {
    case ScalarType.STRING:
      return text;
    case ScalarType.BOOL:
      return fc.boolean();
    case ScalarType.BYTES:
      return fc.uint8Array({ maxLength: 12 });
    case ScalarType.DOUBLE:
      return fc.double({ noNaN: true }).map((number) => number + 0);
    case ScalarType.INT64:
      return fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    case ScalarType.UINT64:
      return fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    case ScalarType.UINT32:
      return fc.integer({ min: 0, max: 2 ** 32 - 1 });
    case ScalarType.INT32:
      return fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
    default:
      throw new Error(`no values for scalar type ${scalar}`);
  }
}

/** The oracle's result in our codec's form, which has no names of types. */
function fromOracle(value: Value): Value {
  if (Array.isArray(value)) return value.map(fromOracle);
  if (typeof value !== "object" || value instanceof Uint8Array) return value;
  const parts = Object.entries(value).filter(([key]) => key !== "$typeName");
  return Object.fromEntries(parts.map(([key, part]) => [key, fromOracle(part)]));
}

const readByOracle = (type: DescMessage, bytes: Uint8Array) => fromOracle(fromBinary(type, bytes) as unknown as Value);

const writeByOracle = (type: DescMessage, value: Record<string, unknown>) => toBinary(type, create(type, value));

const messageWithValue = fc
  .constantFrom(...messages)
  .chain((type) => messageValue(type).map((value) => ({ type, value, bytes: ourCodec(type).encode(value).finish() })));

test("every message has a codec", () => {
  expect(messages.length).toBeGreaterThan(150);
  for (const type of messages) {
    const empty = ourCodec(type).fromPartial({});
    expect(readByOracle(type, ourCodec(type).encode(empty).finish())).toEqual(readByOracle(type, new Uint8Array()));
    expect<unknown>(ourCodec(type).decode(Buffer.alloc(0))).toEqual(empty);
  }
});

test(
  "the oracle and our codec decode what our codec encodes",
  () => {
    const property = fc.property(messageWithValue, ({ type, value, bytes }) => {
      expect(readByOracle(type, bytes)).toEqual(value);
      expect(ourCodec(type).decode(bytes)).toEqual(value);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);

test(
  "our codec decodes what the oracle encodes",
  () => {
    const property = fc.property(messageWithValue, ({ type, value }) => {
      expect(ourCodec(type).decode(writeByOracle(type, value))).toEqual(value);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);

/**
 * Decodes arbitrary bytes, which must return a whole message or throw an Error, in bounded time. Returns whether it was
 * a message.
 */
function readAnything(type: DescMessage, bytes: Uint8Array): boolean {
  const started = performance.now();
  const read = decodeOrFail(type, bytes);
  expect(performance.now() - started).toBeLessThan(2_000);
  if (read instanceof Error) expect(read.message).not.toBe("");
  else expect(Object.keys(read).sort()).toEqual(type.fields.map(({ localName }) => localName).sort());
  return !(read instanceof Error);
}

/** Returns the message, or the error that says what is wrong with the bytes. Throws one that is a fault of the codec. */
function decodeOrFail(type: DescMessage, bytes: Uint8Array): object {
  try {
    return ourCodec(type).decode(bytes);
  } catch (error) {
    if (error instanceof Error && !isProgrammingError(error)) return error;
    throw error;
  }
}

test(
  "random bytes decode or throw, and never hang",
  () => {
    let decoded = 0;
    // Most long ones end within a field. Two bytes are often a field without content, or one with a small number.
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      { weight: 2, arbitrary: fc.uint8Array({ minLength: 1, maxLength: 3 }) },
      { weight: 2, arbitrary: fc.tuple(fc.nat(127), fc.constant(0)).map((pair) => Uint8Array.from(pair)) },
    );
    const property = fc.property(fc.constantFrom(...messages), bytes, (type, each) => {
      if (each.length > 0 && readAnything(type, each)) decoded += 1;
    });
    fc.assert(property, { numRuns });
    expect(decoded).toBeGreaterThanOrEqual(leastCount(numRuns, 50));
  },
  longMs,
);

test(
  "truncated and mutated messages decode or throw",
  () => {
    let decoded = 0;
    const property = fc.property(
      messageWithValue,
      fc.nat(),
      fc.uint8Array({ maxLength: 4 }),
      fc.nat(2),
      (m, at, bytes, kind) => {
        const position = m.bytes.length === 0 ? 0 : at % m.bytes.length;
        const tail = [m.bytes.subarray(position), m.bytes.subarray(position + bytes.length), new Uint8Array()][kind];
        const mutated = Buffer.concat([m.bytes.subarray(0, position), bytes, ...(tail === undefined ? [] : [tail])]);
        if (readAnything(m.type, mutated)) decoded += 1;
      },
    );
    fc.assert(property, { numRuns });
    expect(decoded).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

test("unknown fields of any wire type are skipped", () => {
  const unknown: readonly (readonly number[])[] = [
    [0x98, 0x38, 0x01],
    [0x99, 0x38, 1, 2, 3, 4, 5, 6, 7, 8],
    [0x9a, 0x38, 2, 0xff, 0xfe],
    [0x9d, 0x38, 1, 2, 3, 4],
  ];
  const known = api.Container.encode(api.Container.fromPartial({ id: "c", state: 2 })).finish();
  for (const field of unknown) {
    const read = api.Container.decode(Buffer.concat([Buffer.from(field), known, Buffer.from(field)]));
    expect(read).toEqual(api.Container.fromPartial({ id: "c", state: 2 }));
  }
});

test("a message of a thousand or a million unclosed groups is rejected", () => {
  for (const depth of [1_000, 1_000_000]) {
    const groups = Buffer.alloc(depth, 0x0b);
    expect(() => api.Container.decode(groups)).toThrow();
  }
});

test("a label named __proto__ does not change the prototype", () => {
  const label = Buffer.from([0x42, 14, 0x0a, 9, ...Buffer.from("__proto__"), 0x12, 1, 0x78]);
  const { labels } = api.Container.decode(label);
  expect(Object.getPrototypeOf(labels) === Object.prototype || Object.getPrototypeOf(labels) === null).toBe(true);
  expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
});
