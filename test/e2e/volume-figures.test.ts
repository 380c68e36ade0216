import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { execa } from "execa";
import type { VolumeListing } from "../../agent/serve/local/volume-list.ts";
import { podOf, script } from "./manifest.ts";
import { startNode, type TestNode, waitForOutput } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node.tearDown());

async function berthPods(...args: readonly string[]): Promise<string> {
  const [program, ...own] = node.agent.podsArgv;
  return (await execa(program!, [...own, ...args])).stdout;
}

const volumes = [
  { name: "disk", emptyDir: { sizeLimit: "16Mi" } },
  { name: "memory", emptyDir: { medium: "Memory", sizeLimit: "4Mi" } },
  { name: "about", downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
  { name: "host", hostPath: { path: "/tmp" } },
] as const;
const volumeMounts = volumes.map(({ name }) => ({ name, mountPath: `/${name}` }));
const writes = "for d in disk memory; do dd if=/dev/zero of=/$d/file bs=64k count=16 2> /dev/null; done; echo done";

test("berth pods --volumes shows what a pod has written, on disk and in memory, and what is left", async () => {
  const command = script(`${writes}; exec sleep 1000000`);
  await node.putManifest(podOf("writer", { command, volumeMounts }, { volumes: [...volumes] }));
  const [writer] = await node.waitUntilRunning("writer");
  // The space that is left is read before the files are counted: while the pod writes, the two do not fit.
  await waitForOutput(node, writer!, "done");
  const { pods } = JSON.parse(await berthPods("--volumes", "-o", "json")) as VolumeListing;
  const used = new Map(pods[0]?.volumes.map((volume) => [volume.name, volume]));
  const [disk, memory, about, host] = volumes.map(({ name }) => used.get(name));
  for (const volume of [disk, memory]) expect(volume?.usedBytes).toBeGreaterThanOrEqual(1 << 20);
  expect(disk).toMatchObject({ kind: "emptyDir", limitBytes: 16 << 20, inodesUsed: 2 });
  expect(disk?.capacityBytes).toBeGreaterThan(16 << 20);
  expect(memory).toMatchObject({ limitBytes: 4 << 20, capacityBytes: 4 << 20, inodesUsed: 2 });
  expect((memory?.availableBytes ?? 0) + (memory?.usedBytes ?? 0)).toBe(4 << 20);
  expect(about?.inodesUsed).toBeGreaterThan(2);
  expect(host).toEqual({ name: "host", kind: "hostPath" });

  const [header, ...rows] = (await berthPods("--volumes", "-n", "default")).split("\n");
  expect(header).toMatch(/^NAMESPACE +POD +VOLUME +KIND +USED +AVAILABLE +CAPACITY +LIMIT +INODES$/);
  expect(rows[1]).toMatch(/^default +writer-berth +memory +emptyDir +1\.\d MiB +[23]\.\d MiB +4\.0 MiB +4\.0 MiB +2$/);
  expect(rows[3]).toMatch(/^default +writer-berth +host +hostPath +- +- +- +- +-$/);
  expect(await berthPods("--volumes", "-n", "other")).toBe("no volumes");
});
