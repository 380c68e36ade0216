import { expect, test } from "bun:test";
import { createDeletedAttachments } from "./deleted-attachments.ts";

test("the newest thousand deleted attachments are remembered, by container and interface", () => {
  const deleted = createDeletedAttachments();
  const nameOf = (at: number) => ({ containerId: `c${at}`, ifName: "eth0" });
  for (let at = 0; at <= 1000; at++) deleted.add(nameOf(at));
  expect([0, 1, 1000].map((at) => deleted.has(nameOf(at)))).toEqual([false, true, true]);
  expect(deleted.has({ containerId: "c1", ifName: "net1" })).toBe(false);
});
