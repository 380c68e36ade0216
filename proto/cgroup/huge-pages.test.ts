import { expect, test } from "bun:test";
import { parseResourceList } from "../kubernetes/resource-list.ts";
import { hugePageBytes, hugePageName } from "./huge-pages.ts";

test("a page size has the kernel's name", () => {
  expect([2 ** 16, 2 ** 21, 2 ** 25, 2 ** 30, 2 ** 34].map(hugePageName)).toEqual([
    "64KB",
    "2MB",
    "32MB",
    "1GB",
    "16GB",
  ]);
});

test("the sizes of a resource list have amounts, in whatever notation they are named", () => {
  const list = {
    "hugepages-2Mi": "4Mi",
    "hugepages-2048Ki": "2Mi",
    "hugepages-1Gi": "0",
    "hugepages-x": "1",
    cpu: "1",
  };
  expect([...hugePageBytes(parseResourceList(list))]).toEqual([
    [2 ** 21, 6 * 2 ** 20],
    [2 ** 30, 0],
  ]);
});
