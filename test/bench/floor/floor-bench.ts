import { join } from "node:path";
import type { ContainerdVersion } from "../../bed/containerd/containerd.ts";
import { createPodNames } from "../bench-pod.ts";
import { startMeasuredRuntime } from "../measured-runtime.ts";
import { type Effort, type Measurements, measureAll } from "./floor-rounds.ts";
import { startFloor } from "./raw-cri-floor.ts";
import { startBerth } from "./static-pod-agent.ts";

export interface FloorBenchOptions {
  readonly binary: string;
  readonly version: ContainerdVersion;
  readonly effort: Effort;
  /** Everything is below it. */
  readonly folder: string;
  /** Rejects when it is to end early. */
  readonly interruption: Promise<never>;
}

/**
 * The agent, whose pods are files, beside the raw calls to the runtime. Two equal runtimes, since an agent would take the floor's
 * pods for strays and end them. Cleans up whatever happens.
 */
export async function benchFloor({
  binary,
  version,
  effort,
  folder,
  interruption,
}: FloorBenchOptions): Promise<Measurements> {
  const ends: (() => Promise<unknown>)[] = [];
  try {
    const [floorDir, agentDir] = [join(folder, "floor"), join(folder, "agent")];
    const floorRuntime = await startMeasuredRuntime(version, floorDir);
    ends.push(floorRuntime.stop);
    const agentRuntime = await startMeasuredRuntime(version, agentDir);
    ends.push(agentRuntime.stop);
    const floor = startFloor(floorRuntime, floorDir);
    ends.push(floor.stop);
    const agent = await startBerth(binary, agentRuntime, agentDir);
    ends.push(agent.stop);
    const subjects = { binary, floor, agent, names: createPodNames(), say: console.log };
    return await Promise.race([measureAll(subjects, effort), interruption]);
  } finally {
    for (const end of ends.toReversed()) await end();
  }
}
