import { join } from "node:path";
import type { ContainerdVersion } from "../../bed/containerd/containerd.ts";
import { createPodNames } from "../bench-pod.ts";
import { startMeasuredRuntime } from "../measured-runtime.ts";
import { type FloorEffort, type FloorMeasurements, measureFloorComparison } from "./floor-rounds.ts";
import { startFloor } from "./raw-cri-floor.ts";
import { startStaticPodAgent } from "./static-pod-agent.ts";

export interface FloorBenchOptions {
  readonly binary: string;
  readonly version: ContainerdVersion;
  readonly effort: FloorEffort;
  /** The folder for all files of the benchmark. */
  readonly folder: string;
  /** Rejects when the benchmark must end early. */
  readonly interruption: Promise<never>;
}

/**
 * Compares the agent, with static pods, with the raw calls to the runtime. Each has its own runtime, because the agent
 * would kill the floor's pods as unknown. Always cleans up.
 */
export async function benchFloor({
  binary,
  version,
  effort,
  folder,
  interruption,
}: FloorBenchOptions): Promise<FloorMeasurements> {
  const ends: (() => Promise<unknown>)[] = [];
  try {
    const [floorDir, agentDir] = [join(folder, "floor"), join(folder, "agent")];
    const floorRuntime = await startMeasuredRuntime(version, floorDir);
    ends.push(floorRuntime.stop);
    const agentRuntime = await startMeasuredRuntime(version, agentDir);
    ends.push(agentRuntime.stop);
    const floor = startFloor(floorRuntime, floorDir);
    ends.push(floor.stop);
    const agent = await startStaticPodAgent(binary, agentRuntime, agentDir);
    ends.push(agent.stop);
    const subjects = { binary, floor, agent, names: createPodNames(), print: console.log };
    return await Promise.race([measureFloorComparison(subjects, effort), interruption]);
  } finally {
    for (const end of ends.toReversed()) await end();
  }
}
