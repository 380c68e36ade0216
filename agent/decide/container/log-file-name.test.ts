import { expect, test } from "bun:test";
import { attemptOfLog } from "./log-file-name.ts";

const rows: readonly [file: string, attempt: number | undefined][] = [
  ["0.log", 0],
  ["12.log", 12],
  ["3.log.20260102-150405", 3],
  ["3.log.20260102-150405.gz", 3],
  ["2147483647.log", 2 ** 31 - 1],
  ["2147483648.log", undefined],
  ["20261122000000.log", undefined],
  [`${"9".repeat(400)}.log`, undefined],
  ["007.log", undefined],
  ["-1.log", undefined],
  ["1.5.log", undefined],
  ["1.login", undefined],
  ["x.log", undefined],
  [".log", undefined],
];
for (const [file, attempt] of rows)
  test(`${file.slice(0, 30)} belongs to ${attempt === undefined ? "no attempt" : `attempt ${attempt}`}`, () => {
    expect(attemptOfLog(file)).toBe(attempt);
  });
