import { expect, test } from "bun:test";
import { unsettledUntil } from "./settle.ts";

const now = 1_000_000;
const rows: readonly [
  sentence: string,
  sizeBytes: number,
  ageMs: number,
  leftMs: number | undefined,
  hasArrived?: boolean,
][] = [
  ["a small file that has arrived is whole, however new", 1, 0, undefined],
  ["a small one of which that is not known may be half written", 1, 0, 30, false],
  ["after 30 ms that is whole too", 1, 30, undefined, false],
  ["a file of one write is whole", 4096, 0, undefined],
  ["a larger one may be half written", 4097, 0, 30],
  ["an empty one may be about to be written", 0, 0, 30],
  ["a larger one that was touched a moment ago gets the rest of its moment", 10_000, 29, 1],
  ["after 30 ms it is whole", 10_000, 30, undefined],
  ["an empty file that stays empty is settled", 0, 1000, undefined],
  ["a file of the near future is waited for", 10_000, -10, 40],
  ["a file of the far future cannot be waited for", 10_000, -31, undefined],
  ["a file of next year neither", 0, -31_536_000_000, undefined],
];
for (const [sentence, sizeBytes, ageMs, leftMs, hasArrived = true] of rows)
  test(sentence, () => {
    const stat = { kind: "file", sizeBytes, modifiedMs: now - ageMs, inode: 1, mode: 0o644, group: 0 } as const;
    expect(unsettledUntil(stat, hasArrived, now)).toBe(leftMs === undefined ? undefined : now + leftMs);
  });
