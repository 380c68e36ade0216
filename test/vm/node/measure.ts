// Measures Berth beside the reference kubelet on one emulated node: the start of a pod with its cgroup, and a resize until
// it is in the container's cgroup. The agents take turns; the other one is stopped. npm run vm -- measure [TURNS]
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { buildIfStale } from "../../bed/build.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { pair } from "../../bench/cluster/cluster-figures.ts";
import type { Figure } from "../../bench/figures.ts";
import { assess } from "../../bench/goals.ts";
import { medianOf } from "../../bench/statistics.ts";
import { textTable } from "../../bench/table.ts";
import { podOf } from "../../e2e/manifest.ts";
import { isReady, type NodeAgentName, type NodeBed, startNodeBed } from "./node-bed.ts";

const STEP_TIMEOUT_MS = 10 * 60_000;
const PODS_PER_TURN = 5;
/** Much shorter than what is measured. */
const POLL_MS = 20;
const agents: readonly NodeAgentName[] = ["kubelet", "berth"];

interface Sample {
  /** From the request that creates the pod until the API server has it as Ready. */
  readonly startMs: number;
  /** From the request that resizes the container until `cpu.max` of its cgroup has another value. */
  readonly resizeMs: number;
}

const measuredPod = (name: string): Pod =>
  podOf(
    name,
    { resources: { requests: { cpu: "50m", memory: "32Mi" }, limits: { cpu: "400m", memory: "64Mi" } } },
    { hostNetwork: true, automountServiceAccountToken: false, terminationGracePeriodSeconds: 1 },
  );
const largerCpu = { spec: { containers: [{ name: "main", resources: { limits: { cpu: "500m" } } }] } };

async function measurePod(bed: NodeBed, name: string): Promise<Sample> {
  const started = performance.now();
  const [pod] = await bed.createPods([measuredPod(name)], isReady, POLL_MS);
  const startMs = performance.now() - started;
  const resizeMs = await measureResize(bed, pod!);
  await bed.deletePods();
  return { startMs, resizeMs };
}

async function measureResize({ guest, resizePod }: NodeBed, pod: Pod): Promise<number> {
  const id = pod.status?.containerStatuses?.[0]?.containerID?.replace(/^.*:\/\//, "") ?? "";
  if (id === "") throw new Error(`${pod.metadata.name} runs, and its container has no id`);
  const changed = guest.run(`rm -f /run/is-watching
file=$(busybox find /sys/fs/cgroup/kubepods* -path '*${id}*/cpu.max')
read -r before < "$file"
after=$before
touch /run/is-watching
while test "$after" = "$before"; do sleep 0.02; read -r after < "$file"; done`);
  const isWatching = async () => (await guest.run("test ! -e /run/is-watching || echo yes")) === "yes";
  await pollUntil("the watch of the file", STEP_TIMEOUT_MS, isWatching);
  const started = performance.now();
  await resizePod(pod.metadata.name ?? "", largerCpu);
  await changed;
  return performance.now() - started;
}

/** Each agent's samples. The first pod after an agent's start is not measured: it shows that the agent works. */
async function measureAgents(bed: NodeBed, turns: number, print: (line: string) => void) {
  const samples: Record<NodeAgentName, Sample[]> = { kubelet: [], berth: [] };
  for (let turn = 0; turn < turns; turn++)
    for (const agent of turn % 2 === 0 ? agents : agents.toReversed()) {
      await bed.startAgent(agent);
      await measurePod(bed, `warm-up-${turn}`);
      for (let at = 0; at < PODS_PER_TURN; at++) {
        const sample = await measurePod(bed, `measured-${turn}-${at}`);
        samples[agent].push(sample);
        print(`${agent}: start ${sample.startMs.toFixed(0)} ms, resize ${sample.resizeMs.toFixed(0)} ms`);
      }
      await bed.stopAgent(agent);
    }
  return samples;
}

/** The medians of both agents and the ratio of each pair, with the goals. */
function figuresOf(samples: Readonly<Record<NodeAgentName, readonly Sample[]>>): readonly Figure[] {
  const figure = (what: string, read: (sample: Sample) => number, atMost: number): Figure => ({
    ...pair(what, "ms", samples, (all) => medianOf(all.map(read)), atMost),
    isSingle: true,
  });
  return [
    figure("start of a pod with its cgroup", ({ startMs }) => startMs, 1),
    figure("resize until it is in the cgroup", ({ resizeMs }) => resizeMs, 0.5),
  ];
}

/**
 * Measures with the systemd driver and containerd 1.7, in twelve turns of each agent or as many as are given. Returns the exit
 * code, which is 1 if a goal is missed.
 */
export async function main([text = "12"]: readonly string[]): Promise<number> {
  const turns = Number(text);
  if (!Number.isInteger(turns) || turns < 1) {
    console.error("npm run vm -- measure [TURNS]");
    return 2;
  }
  console.log(await buildIfStale());
  const bed = await startNodeBed({ containerd: "1.7", driver: "systemd", agents, print: console.log });
  try {
    const figures = figuresOf(await measureAgents(bed, turns, console.log));
    console.log(textTable(figures, "kubelet"));
    return figures.some((figure) => assess(figure)?.verdict === "missed") ? 1 : 0;
  } finally {
    await bed.end();
  }
}
