import type { Writer } from "protobufjs/minimal";

/** A 64-bit number as protobufjs reads and writes it: two signed halves. */
export interface Long {
  readonly high: number;
  readonly low: number;
  readonly unsigned: boolean;
}

/** The writer asks for an instance of its own class, and reads the two halves alone. */
type Written = Parameters<Writer["int64"]>[0];

const HALF_BITS = 32n;

export function longToBigint({ high, low, unsigned }: Long): bigint {
  const value = (BigInt(high) << HALF_BITS) | BigInt(low >>> 0);
  return unsigned ? BigInt.asUintN(64, value) : value;
}

/** For protobufjs's writer, which writes signed and unsigned numbers with the same bits alike. */
export function longOf(value: bigint): Written {
  const low = Number(BigInt.asIntN(32, value));
  const halves: Long = { low, high: Number(BigInt.asIntN(32, value >> HALF_BITS)), unsigned: false };
  return halves as Written;
}
