import { expect, test } from "bun:test";
import { join } from "node:path";

/** Prints the fields of a heap snapshot. */
const program = `
import { createClock } from ${JSON.stringify(join(import.meta.dirname, "clock.ts"))};
import { createProfiler } from ${JSON.stringify(join(import.meta.dirname, "profiler.ts"))};
const { nodes, edges, ...rest } = JSON.parse(createProfiler(createClock()).heapSnapshot());
console.log(JSON.stringify([nodes.length > 1000, edges.length > 1000, rest.snapshot.meta.node_fields]));
`;

// In a process of its own: that of the tests has a heap for which a snapshot takes many seconds.
test("a heap snapshot has the format of Chrome's developer tools", async () => {
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual([true, true, expect.arrayContaining(["type", "name", "id", "self_size"])]);
});
