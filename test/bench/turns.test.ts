import { expect, test } from "bun:test";
import { takeTurns } from "./turns.ts";

test("the sides alternate who begins, and each turn is a pair", async () => {
  const order: string[] = [];
  const samples = await takeTurns(["floor", "kubelet", "berth"], 3, async (side, turn) => {
    order.push(side);
    return `${side} ${turn}`;
  });
  expect(order).toEqual(["floor", "kubelet", "berth", "berth", "kubelet", "floor", "floor", "kubelet", "berth"]);
  expect(samples.berth).toEqual(["berth 0", "berth 1", "berth 2"]);
});
