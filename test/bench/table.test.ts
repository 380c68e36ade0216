import { expect, test } from "bun:test";
import type { Figure } from "./figures.ts";
import { medianOf } from "./statistics.ts";
import { markdownTable, textTable } from "./table.ts";

const ratio: Figure = {
  what: "a pod",
  unit: "ms",
  floor: medianOf([100]),
  peer: medianOf([200, 190, 210]),
  berth: medianOf([150]),
  target: { words: "0.70 × the kubelet's", atMost: 140 },
};
const count: Figure = {
  what: "requests",
  unit: "",
  peer: medianOf([0]),
  berth: medianOf([0]),
  target: { words: "0", atMost: 0 },
};

test("a row of the kubelet's table is compared with the kubelet and also shows the floor", () => {
  expect(markdownTable([ratio, count], "kubelet").split("\n")).toEqual([
    "| what | floor | kubelet | berth | against the kubelet | to reach |  |",
    "| --- | --- | --- | --- | --- | --- | --- |",
    "| a pod | 100 ms | 200 ms | 150 ms | −50 ms, 0.75 × | ≤ 0.70 × the kubelet's | missed |",
    "| requests |  | 0 | 0 | +0 | ≤ 0 | reached |",
  ]);
});

test("a row of the floor's table does not show the kubelet", () => {
  expect(markdownTable([ratio], "floor").split("\n")[2]).toBe(
    "| a pod | 100 ms | 150 ms | +50 ms, 1.50 × | ≤ 0.70 × the kubelet's | missed |",
  );
});

test("the terminal table shows the lowest and the highest of several samples after the value", () => {
  expect(textTable([ratio], "kubelet")).toContain("200 ms (190–210)");
});
