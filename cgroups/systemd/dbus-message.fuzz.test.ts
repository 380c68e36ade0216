import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../test/fakes/least-count.ts";
import { mutatedBytes } from "../../test/fakes/mutated-bytes.ts";
import { bodyOf, type DbusMessage, type DbusValue, decodeMessage, encodeMessage } from "./dbus-message.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const text = fc.string({ maxLength: 10 });
const unit = fc.record({ signature: fc.constant("t"), value: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }) });
/** The bodies that systemd sends and gets, and types that only a fault puts there. */
const bodies = fc.oneof(
  fc.constant({ signature: "", body: [] as DbusValue[] }),
  fc.tuple(text, text).map((body) => ({ signature: "ss", body })),
  fc.tuple(fc.nat(), text, text, text).map((body) => ({ signature: "uoss", body })),
  fc
    .tuple(text, fc.array(fc.tuple(text, unit), { maxLength: 3 }))
    .map((body) => ({ signature: "sa(sv)", body: body as DbusValue[] })),
  fc.array(fc.nat(255), { maxLength: 9 }).map((bytes) => ({ signature: "vas", body: [ofBytes(bytes), []] })),
  fc.tuple(fc.boolean(), fc.double({ noNaN: true }), fc.integer()).map((body) => ({ signature: "bdi", body })),
);
const ofBytes = (value: readonly number[]) => ({ signature: "ay", value });
const fields = fc.record(
  {
    path: fc.constantFrom("/", "/org/freedesktop/systemd1"),
    interface: text,
    member: fc.constantFrom("JobRemoved", "StopUnit"),
    errorName: text,
    replySerial: fc.nat(),
    destination: text,
    sender: text,
  },
  { requiredKeys: [] },
);
const message = fc
  .tuple(fc.constantFrom("call", "return", "error", "signal"), fc.nat(), fields, bodies)
  .map(([kind, serial, header, { signature, body }]) =>
    encodeMessage({ kind: kind as DbusMessage["kind"], serial, signature, ...header }, body),
  );

/** A mutated message whose lengths of header fields and body are often right, so that the reader gets behind them. */
const anyBytes = fc.tuple(mutatedBytes(message), fc.boolean()).map(([bytes, isRepaired]) => {
  if (!isRepaired || bytes.length < 16) return bytes;
  const headerBytes = Math.ceil((16 + bytes.readUInt32LE(12)) / 8) * 8;
  if (headerBytes <= bytes.length) bytes.writeUInt32LE(bytes.length - headerBytes, 4);
  return bytes;
});

/** The JavaScript types of the header fields. */
const typesOfFields = {
  kind: "string",
  serial: "number",
  path: "string",
  interface: "string",
  member: "string",
  errorName: "string",
  replySerial: "number",
  destination: "string",
  sender: "string",
  signature: "string",
  body: "object",
} as const;

test(
  "a message with faults is decoded with values of its types, is not yet whole, or is refused with the reason",
  () => {
    const counts = { decoded: 0, "not whole": 0, refused: 0 };
    const property = fc.property(anyBytes, (bytes) => {
      const result = attempt(bytes);
      if (result instanceof Error) {
        counts.refused += 1;
        // Neither a fault of the decoder, nor a read beyond the bytes, nor a stack without end.
        expect([result.name, result.message]).toEqual(["Error", expect.stringMatching(/D-Bus|ends within a type/)]);
        return;
      }
      if (result === undefined) {
        counts["not whole"] += 1;
        return;
      }
      counts.decoded += 1;
      for (const [name, value] of Object.entries(result.found)) {
        const expected = typesOfFields[name as keyof typeof typesOfFields];
        expect([name, typeof value]).toEqual([name, expected]);
      }
      // What was read is what its bytes say: it has them again, but for their padding.
      const again = encodeMessage({ kind: "call", serial: 1, signature: result.found.signature }, result.values);
      expect(bodyOf(decodeMessage(again)?.message ?? { signature: "", body: new Uint8Array() })).toEqual(result.values);
    });
    fc.assert(property, { numRuns });
    const atLeast = leastCount(numRuns, 50);
    for (const [what, count] of Object.entries(counts)) expect(count, what).toBeGreaterThanOrEqual(atLeast);
    expect(counts.decoded).toBeGreaterThanOrEqual(leastCount(numRuns, 10));
  },
  longMs,
);

function attempt(bytes: Uint8Array): { found: DbusMessage; values: readonly DbusValue[] } | undefined | Error {
  try {
    const found = decodeMessage(bytes)?.message;
    return found === undefined ? undefined : { found, values: bodyOf(found) };
  } catch (error) {
    return error as Error;
  }
}

test(
  "a message without faults is decoded as it was encoded",
  () => {
    const property = fc.property(fields, bodies, fc.nat(), (header, { signature, body }, serial) => {
      const found = decodeMessage(encodeMessage({ kind: "signal", serial, signature, ...header }, body));
      expect(found?.message).toEqual({ kind: "signal", serial, signature, ...header, body: expect.anything() });
      expect(bodyOf(found!.message)).toEqual(body);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);
