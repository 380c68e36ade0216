// Pods of forty containers, whose shim blocks when all of them are stopped at once.
import { afterAll, beforeAll, describe, setDefaultTimeout, test } from "bun:test";
import { busyboxImage } from "../bed/images/images.ts";
import { podOf, untilStopped } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";
import { versionsUnderTest } from "./versions-under-test.ts";

setDefaultTimeout(600_000);

const containers = Array.from({ length: 40 }, (_, index) => ({
  name: `c${index}`,
  image: busyboxImage,
  command: untilStopped,
}));

for (const version of versionsUnderTest)
  describe(`containerd ${version}`, () => {
    let node: TestNode;
    beforeAll(async () => {
      node = await startNode({ version });
    });
    afterAll(() => node.tearDown());

    test.each([
      ["have namespaces of their own", false],
      ["share a process namespace", true],
    ])("a pod of forty containers that %s ends within seconds", async (_, shareProcessNamespace) => {
      await node.putManifest(podOf("many", {}, { containers, shareProcessNamespace }));
      await node.waitForPod("many", "it is up", ({ ready }) => ready === "40/40", 90_000);
      await node.removeFile("many.yaml");
      await node.waitUntilEmpty(30_000);
    });
  });
