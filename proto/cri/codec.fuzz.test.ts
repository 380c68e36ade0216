import { expect, test } from "bun:test";
import fc from "fast-check";
import { Enum, type Field, MapField, Namespace, parse, Type } from "protobufjs";
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

/** protobufjs reading the same .proto is the oracle: another library, by other people, sharing no code with ours. */
async function readProto(name: string): Promise<readonly Type[]> {
  const { root, package: path = "" } = parse(await Bun.file(new URL(name, import.meta.url)).text());
  root.resolveAll();
  const namespace = root.lookup(path ?? "");
  return namespace instanceof Namespace ? namespace.nestedArray.filter((object) => object instanceof Type) : [];
}

const protos = ["api.proto", "containerd-containers.proto", "containerd-events.proto", "containerd-tasks.proto"];
const messages = (await Promise.all(protos.map(readProto))).flat();
const codecs = { ...api, ...containerdContainers, ...containerdEvents, ...containerdTasks } as unknown as Readonly<
  Record<string, Codec>
>;
const ours = ({ name }: Type): Codec => {
  const found = codecs[name];
  if (found === undefined) throw new Error(`no codec for ${name}`);
  return found;
};

type Value = string | number | boolean | bigint | Uint8Array | undefined | readonly Value[] | { [key: string]: Value };
const is64 = (type: string) => type === "int64" || type === "uint64";

/** Values as our codec takes and gives them: every field there, messages undefined where absent. */
function messageValue(type: Type, depth = 0): fc.Arbitrary<{ [key: string]: Value }> {
  const fields = Object.fromEntries(type.fieldsArray.map((field) => [field.name, fieldValue(field, depth)]));
  return fc.record(fields) as fc.Arbitrary<{ [key: string]: Value }>;
}

function fieldValue(field: Field, depth: number): fc.Arbitrary<Value> {
  if (field instanceof MapField)
    return fc.dictionary(
      text.filter((key) => key !== "__proto__"),
      single(field, depth),
      { maxKeys: 3 },
    );
  if (field.repeated) return fc.array(single(field, depth), { maxLength: 3 });
  if (field.resolvedType instanceof Type)
    return depth > 3 ? fc.constant(undefined) : fc.option(single(field, depth), { nil: undefined });
  return single(field, depth);
}

const text = fc.string({ unit: "grapheme", maxLength: 12 });

function single({ type, resolvedType }: Field, depth: number): fc.Arbitrary<Value> {
  if (resolvedType instanceof Type) return messageValue(resolvedType, depth + 1);
  if (resolvedType instanceof Enum) return fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
  switch (type) {
    case "string":
      return text;
    case "bool":
      return fc.boolean();
    case "bytes":
      return fc.uint8Array({ maxLength: 12 });
    case "double":
      return fc.double({ noNaN: true }).map((number) => number + 0);
    case "int64":
      return fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    case "uint64":
      return fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    case "uint32":
      return fc.integer({ min: 0, max: 2 ** 32 - 1 });
    case "int32":
      return fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
    default:
      throw new Error(`no values for ${type}`);
  }
}

/** The same value in the oracle's words: 64-bit numbers as decimal text, what is absent left out. */
function toOracle(value: Value): unknown {
  if (typeof value === "bigint") return value.toString();
  if (value instanceof Uint8Array || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(toOracle);
  const entries = Object.entries(value).filter(([, part]) => part !== undefined);
  return Object.fromEntries(entries.map(([key, part]) => [key, toOracle(part)]));
}

/** What the oracle read, in our codec's words. */
function fromOracle(type: Type, value: Readonly<Record<string, unknown>>): Value {
  return Object.fromEntries(type.fieldsArray.map((field) => [field.name, fieldFromOracle(field, value[field.name])]));
}

function fieldFromOracle(field: Field, value: unknown): Value {
  if (field instanceof MapField)
    return Object.fromEntries(Object.entries(value ?? {}).map(([key, part]) => [key, partFromOracle(field, part)]));
  if (Array.isArray(value)) return value.map((part) => partFromOracle(field, part));
  return value === null || value === undefined ? undefined : partFromOracle(field, value);
}

function partFromOracle({ type, resolvedType }: Field, value: unknown): Value {
  if (resolvedType instanceof Type) return fromOracle(resolvedType, value as Readonly<Record<string, unknown>>);
  if (is64(type)) return BigInt(value as string);
  if (type === "bytes") return new Uint8Array(value as Uint8Array);
  return value as Value;
}

const readByOracle = (type: Type, bytes: Uint8Array) =>
  fromOracle(type, type.toObject(type.decode(bytes), { longs: String, defaults: true, arrays: true, objects: true }));

const messageWithValue = fc
  .constantFrom(...messages)
  .chain((type) => messageValue(type).map((value) => ({ type, value, bytes: ours(type).encode(value).finish() })));

test("every message has its codec", () => {
  expect(messages.length).toBeGreaterThan(150);
  for (const type of messages) expect(ours(type).encode(ours(type).fromPartial({})).finish()).toHaveLength(0);
});

test(
  "what our codec writes, the oracle reads, and our codec reads the same",
  () => {
    const property = fc.property(messageWithValue, ({ type, value, bytes }) => {
      expect(readByOracle(type, bytes)).toEqual(value);
      expect(ours(type).decode(bytes)).toEqual(value);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);

test(
  "what the oracle writes, our codec reads",
  () => {
    const property = fc.property(messageWithValue, ({ type, value }) => {
      const bytes = type.encode(type.fromObject(toOracle(value) as object)).finish();
      expect(ours(type).decode(new Uint8Array(bytes))).toEqual(value);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);

/** Reads bytes that may be anything: a message with all its fields, or an Error that says what is wrong, and soon. */
function readAnything(type: Type, bytes: Uint8Array): void {
  const started = performance.now();
  const read = decodeOrFail(type, bytes);
  expect(performance.now() - started).toBeLessThan(2_000);
  if (read instanceof Error) expect(read.message).not.toBe("");
  else expect(Object.keys(read).sort()).toEqual(type.fieldsArray.map(({ name }) => name).sort());
}

function decodeOrFail(type: Type, bytes: Uint8Array): object {
  try {
    return ours(type).decode(bytes);
  } catch (error) {
    if (error instanceof Error) return error;
    throw error;
  }
}

test(
  "random bytes are read or refused, and never hang",
  () => {
    const bytes = fc.uint8Array({ maxLength: 200 });
    fc.assert(fc.property(fc.constantFrom(...messages), bytes, readAnything), { numRuns });
  },
  longMs,
);

test(
  "messages cut off, with a byte changed or bytes put in are read or refused",
  () => {
    const property = fc.property(
      messageWithValue,
      fc.nat(),
      fc.uint8Array({ maxLength: 4 }),
      fc.nat(2),
      (m, at, bytes, kind) => {
        const place = m.bytes.length === 0 ? 0 : at % m.bytes.length;
        const tail = [m.bytes.subarray(place), m.bytes.subarray(place + bytes.length), new Uint8Array()][kind];
        readAnything(m.type, Buffer.concat([m.bytes.subarray(0, place), bytes, ...(tail === undefined ? [] : [tail])]));
      },
    );
    fc.assert(property, { numRuns });
  },
  longMs,
);

test("fields of a newer version are passed over, whatever their wire type", () => {
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

test("a message nested without end is refused", () => {
  for (const depth of [1_000, 1_000_000]) {
    const groups = Buffer.alloc(depth, 0x0b);
    expect(() => api.Container.decode(groups)).toThrow();
  }
});

test("a label named __proto__ changes no prototype", () => {
  const label = Buffer.from([0x42, 14, 0x0a, 9, ...Buffer.from("__proto__"), 0x12, 1, 0x78]);
  const { labels } = api.Container.decode(label);
  expect(Object.getPrototypeOf(labels) === Object.prototype || Object.getPrototypeOf(labels) === null).toBe(true);
  expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
});
