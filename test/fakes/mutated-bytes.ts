// Bytes that are nearly valid: random ones hardly get past the first header of a protocol.
import fc from "fast-check";

/**
 * Arbitrary bytes that are made of valid ones: unchanged, with up to four bytes changed, without a part, with a part of
 * other valid bytes inserted, or the beginning of one before the end of another.
 */
export function mutatedBytes(valid: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Buffer> {
  const changed = fc
    .tuple(valid, fc.array(fc.tuple(fc.nat(), fc.oneof(fc.nat(255), fc.nat(8))), { minLength: 1, maxLength: 4 }))
    .map(([bytes, changes]) =>
      changes.reduce((all, [at, byte]) => (all.length === 0 ? all : all.with(at % all.length, byte)), bytes),
    );
  const cut = fc.tuple(valid, part).map(([bytes, range]) => {
    const [start, end] = rangeOf(bytes, range);
    return Buffer.concat([bytes.subarray(0, start), bytes.subarray(end)]);
  });
  const spliced = fc.tuple(valid, valid, fc.nat(), part).map(([bytes, other, at, range]) => {
    const position = at % (bytes.length + 1);
    const inserted = other.subarray(...rangeOf(other, range));
    return Buffer.concat([bytes.subarray(0, position), inserted, bytes.subarray(position)]);
  });
  const joined = fc
    .tuple(valid, valid, fc.nat(), fc.nat())
    .map(([first, second, at, from]) =>
      Buffer.concat([first.subarray(0, at % (first.length + 1)), second.subarray(from % (second.length + 1))]),
    );
  return fc.oneof(valid, changed, cut, spliced, joined).map((bytes) => Buffer.from(bytes));
}

/** A start, and a length. Most faults are short. */
const part = fc.tuple(fc.nat(), fc.oneof(fc.nat(4), fc.nat(40)));

function rangeOf(bytes: Uint8Array, [at, length]: readonly [number, number]): [start: number, end: number] {
  const start = at % (bytes.length + 1);
  return [start, start + length];
}
