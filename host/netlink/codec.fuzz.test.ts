import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../test/fakes/least-count.ts";
import { mutatedBytes } from "../../test/fakes/mutated-bytes.ts";
import { type Attribute, decodeAttributes, decodeMessages, decodeVerdict, encodeMessage } from "./codec.ts";
import { NetlinkError } from "./error.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const type = fc.integer({ min: 0, max: 0x3fff });
const { attributes } = fc.letrec<{ attributes: Attribute[]; attribute: Attribute }>((tie) => ({
  attributes: fc.array(tie("attribute"), { maxLength: 4 }),
  attribute: fc.oneof(
    { depthSize: "small" },
    fc.tuple(type, fc.uint8Array({ maxLength: 20 })),
    fc.tuple(type, tie("attributes")),
  ),
}));

/** What decoding a part of an attribute tree must give, level by level. */
function expectAttributes(bytes: Uint8Array, expected: readonly Attribute[]): void {
  const found = decodeAttributes(bytes);
  expect(found.map(([number]) => number)).toEqual(expected.map(([number]) => number));
  for (const [index, [, value]] of expected.entries()) {
    const content = found[index]?.[1] ?? new Uint8Array();
    if (value instanceof Uint8Array) expect([...content]).toEqual([...value]);
    else expectAttributes(content, value);
  }
}

test(
  "what is encoded is decoded to the same",
  () => {
    const property = fc.property(attributes, fc.integer({ min: 1, max: 0xffffffff }), (tree, sequence) => {
      const body = Uint8Array.of(1, 2, 3, 4);
      const [message, ...rest] = decodeMessages(
        encodeMessage({ type: 16, flags: 5, body, attributes: tree }, sequence),
      );
      expect(rest).toEqual([]);
      expect(message).toMatchObject({ type: 16, flags: 5, sequence });
      expectAttributes((message?.payload ?? new Uint8Array()).subarray(4), tree);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);

test(
  "any bytes are decoded, or refused as a bad message",
  () => {
    const datagram = fc.oneof(
      fc.uint8Array({ maxLength: 100 }),
      // A header whose length is right lets the bytes behind it through.
      fc.uint8Array({ minLength: 4, maxLength: 80 }).map((payload) => {
        const bytes = encodeMessage({ type: 2, flags: 0x200, body: payload, attributes: [] }, 1);
        return bytes;
      }),
      {
        weight: 3,
        arbitrary: mutatedBytes(
          attributes.map((tree) => encodeMessage({ type: 16, flags: 5, body: Uint8Array.of(), attributes: tree }, 1)),
        ),
      },
    );
    let [decoded, refused] = [0, 0];
    const property = fc.property(datagram, (bytes) => {
      try {
        const messages = decodeMessages(bytes);
        for (const message of messages) {
          decodeVerdict(message);
          decodeAttributes(message.payload);
        }
        if (messages.length > 0) decoded += 1;
      } catch (error) {
        refused += 1;
        expect(error).toBeInstanceOf(NetlinkError);
        expect((error as NetlinkError).code).toBe("EBADMSG");
      }
    });
    fc.assert(property, { numRuns });
    expect(decoded).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
    expect(refused).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);
