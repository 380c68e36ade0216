import { expect, test } from "bun:test";
import golden from "../../../test/golden/static-pod-uids.json" with { type: "json" };
import { addInternalQuantities, decodeQuantity, dumpQuantity, roundQuantity } from "./quantity.ts";

const dump = (...args: Parameters<typeof dumpQuantity>) => `(resource.Quantity)${dumpQuantity(...args)}`;

test("quantities have the form that Kubernetes decodes, and after rounding to thousandths", () => {
  const quantities: Record<string, string[]> = golden.quantities;
  for (const [text, [decoded = "", rounded = decoded]] of Object.entries(quantities)) {
    const quantity = decodeQuantity(text);
    expect([text, dump(quantity), dump(roundQuantity(quantity))]).toEqual([text, decoded, rounded]);
  }
});

test("sums have the form that Kubernetes computes", () => {
  const sums: Record<string, string> = golden.sums;
  for (const [terms, expected] of Object.entries(sums)) {
    const [a, b] = terms.split("+").map((text) => decodeQuantity(text));
    expect([terms, dump(addInternalQuantities(a ?? decodeQuantity("0"), b ?? decodeQuantity("0")))]).toEqual([
      terms,
      expected,
    ]);
  }
});
