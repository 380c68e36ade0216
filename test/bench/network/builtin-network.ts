// Measures ADD and DEL of the built-in network, in a namespace of its own that stands for the node. As root:
// npx bun test/bench/network/builtin-network.ts [PODS]

import { createNode } from "../../contract/builtin-fixture.ts";

/** Sorted milliseconds as p50, p95 and the largest. */
function figuresOf(samples: readonly number[]): string {
  const sorted = samples.toSorted((a, b) => a - b);
  const quantile = (part: number) =>
    (sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))] ?? 0).toFixed(2);
  return `p50 ${quantile(0.5)} ms, p95 ${quantile(0.95)} ms, max ${quantile(1)} ms`;
}

const count = Number(process.argv[2] ?? 100);
const portOf = (index: number) => ({ hostPort: 8000 + index, containerPort: 80, protocol: "tcp" });

const millisecondsOf = async (work: () => Promise<unknown>): Promise<number> => {
  const startMs = performance.now();
  await work();
  return performance.now() - startMs;
};

/** The result of `work`, and the CPU time of this process meanwhile in milliseconds. */
async function withCpu<T>(work: () => Promise<T>): Promise<[T, number]> {
  const before = process.cpuUsage();
  const result = await work();
  const { user, system } = process.cpuUsage(before);
  return [result, (user + system) / 1000];
}

/** Adds and deletes pods one after the other, then adds them again and deletes all at once. */
async function measure(hasPorts: boolean): Promise<void> {
  const node = createNode();
  const idOf = (index: number) => ({
    containerId: `c${index}`,
    netns: node.namespaces.create().path,
    conf: hasPorts ? { runtimeConfig: { portMappings: [portOf(index)] } } : {},
  });
  const adds: number[] = [];
  const deletions: number[] = [];
  const add = async () => {
    const ids = Array.from({ length: count }, (_, index) => idOf(index));
    for (const id of ids) adds.push(await millisecondsOf(() => node.call("ADD", id)));
    return ids;
  };
  const [ids, addCpuMs] = await withCpu(add);
  const [, deletionCpuMs] = await withCpu(async () => {
    for (const id of ids) deletions.push(await millisecondsOf(() => node.call("DEL", id)));
  });
  const again = await add();
  const allMs = await millisecondsOf(() => Promise.all(again.map((id) => node.call("DEL", id))));
  node.close();
  console.log(`${count} pods, ${hasPorts ? "one host port each" : "no host ports"}`);
  console.log(`  ADD ${figuresOf(adds)}; CPU ${(addCpuMs / count).toFixed(2)} ms, with the pod's namespace`);
  console.log(`  DEL ${figuresOf(deletions)}; CPU ${(deletionCpuMs / count).toFixed(2)} ms`);
  console.log(`  DEL of all at once ${allMs.toFixed(0)} ms`);
}

for (const hasPorts of [false, true]) await measure(hasPorts);
