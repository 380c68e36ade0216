import { expect, test } from "bun:test";
import { parseQuantity, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import { thresholdAmount } from "./eviction-thresholds.ts";

test.each<[text: string | undefined, bytes: number]>([
  [undefined, 0],
  ["0%", 0],
  ["100%", 0],
  ["-5%", 0],
  ["150%", 0],
  ["ten%", 0],
  ["10%", 100],
  ["15%", 150],
  ["0.15%", 1],
  ["100", 100],
  ["1Ki", 1024],
  ["many", 0],
])("the threshold %j of a capacity of 1000 is %d", (text, bytes) => {
  expect(toNumber(thresholdAmount(text, parseQuantity("1000")))).toBe(bytes);
});
