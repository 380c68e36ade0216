import { expect, test } from "bun:test";
import { isNamespaceMount } from "./network-namespace.ts";

test("a namespace of a process is one; a file, a folder and an absent path are none", async () => {
  const paths = ["/proc/self/ns/net", "/etc/passwd", "/tmp", "/nowhere", "/etc/passwd/x"];
  expect(await Promise.all(paths.map(isNamespaceMount))).toEqual([true, false, false, false, false]);
});
