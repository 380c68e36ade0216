import { expect, test } from "bun:test";
import { formatCpuList, parseCpuList } from "./cpu-list.ts";

test("a CPU list names its CPUs", () => {
  const parsed = ["", " ", "0", "0-3,8", "1,1-2", " 0 , 2-3", "999999"].map((list) => [
    ...(parseCpuList(list) ?? ["?"]),
  ]);
  expect(parsed).toEqual([[], [], [0], [0, 1, 2, 3, 8], [1, 2], [0, 2, 3], [999_999]]);
});

test("other texts are no CPU lists", () => {
  const texts = ["a", "0-", "-1", "3-1", "0,", "1.5", "0-3-5", "1000000", "0-9999999"];
  expect(texts.map(parseCpuList)).toEqual(texts.map(() => undefined));
});

test("a set of CPUs is written as the kernel shows it", () => {
  const lists = ["", "3", "1,0", "0-3,8", "8,0-1,2-3,9", "0,2,4"];
  expect(lists.map((list) => formatCpuList(parseCpuList(list) ?? new Set()))).toEqual([
    "",
    "3",
    "0-1",
    "0-3,8",
    "0-3,8-9",
    "0,2,4",
  ]);
});
