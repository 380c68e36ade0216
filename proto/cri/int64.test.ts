import { expect, test } from "bun:test";
import { Reader, Writer } from "protobufjs/minimal";
import { type Long, longOf, longToBigint } from "./int64.ts";

const signed = [0n, 1n, -1n, 2n ** 31n, -(2n ** 31n), 2n ** 32n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)];
const unsigned = [0n, 1n, 2n ** 31n, 2n ** 32n, 2n ** 63n, 2n ** 64n - 1n];

test.each(signed)("protobufjs writes and reads the int64 %p", (value) => {
  const bytes = Writer.create().int64(longOf(value)).finish();
  expect(longToBigint(Reader.create(bytes).int64() as Long)).toBe(value);
});

test.each(unsigned)("protobufjs writes and reads the uint64 %p", (value) => {
  const bytes = Writer.create().uint64(longOf(value)).finish();
  expect(longToBigint(Reader.create(bytes).uint64() as Long)).toBe(value);
});
