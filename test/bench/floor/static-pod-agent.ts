import { renameSync, unlinkSync } from "node:fs";
import { mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { type Agent, startAgent } from "../../bed/agent.ts";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { until } from "../../bed/poll-until.ts";
import { benchPod, nodeName } from "../bench-pod.ts";
import type { Subject } from "../measure-rounds.ts";
import type { MeasuredRuntime } from "../measured-runtime.ts";
import { type Usage, usageOf } from "../process-usage.ts";

/** The agent as a subject: its pods are files. */
export interface Berth extends Subject {
  readonly pid: number;
  /** Ends the present agent and starts the next one; its pods go on. */
  restart(): Promise<void>;
  /** The agent as a subject whose pods are asked for by its own start: their manifests are there before it. */
  readonly fromNothing: Subject;
  usage(): Promise<Usage>;
  logBytes(): Promise<number>;
  stop(): Promise<void>;
}

const QUIET_MS = 100;

export async function startBerth(binary: string, runtime: MeasuredRuntime, stateDir: string): Promise<Berth> {
  const { manifests, agentLog } = bedPaths(stateDir);
  const prepared = join(stateDir, "prepared");
  for (const folder of [manifests, prepared]) await mkdir(folder, { recursive: true });
  const launch = () => startAgent({ binary, stateDir, endpoint: runtime.containerd.endpoint });
  let agent: Agent = await launch();
  const usage = () => usageOf(agent.pid);

  /** An agent that uses no CPU for a while has nothing left to do, and is not disturbed by being looked at like this. */
  async function settled(): Promise<void> {
    await until("the agent to be quiet", 60_000, async () => {
      const { cpuMs } = await usage();
      await pause(QUIET_MS);
      return (await usage()).cpuMs === cpuMs;
    });
  }

  /** Renamed into place, so that the agent never finds half a file. */
  async function start(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    for (const name of names) await writeFile(join(prepared, fileOf(name)), JSON.stringify(benchPod(name)));
    const asked = names.map((name) => {
      const askedAt = Date.now();
      renameSync(join(prepared, fileOf(name)), join(manifests, fileOf(name)));
      return [`${name}-${nodeName}`, askedAt] as const;
    });
    return new Map(asked);
  }

  async function removeAll(): Promise<ReadonlyMap<string, number>> {
    const files = await readdir(manifests);
    const asked = files.map((file) => {
      const askedAt = Date.now();
      unlinkSync(join(manifests, file));
      return [`${file.replace(/\.json$/, "")}-${nodeName}`, askedAt] as const;
    });
    return new Map(asked);
  }

  async function startFromNothing(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    await agent.stop();
    const pods = [...(await start(names)).keys()];
    const askedAt = Date.now();
    agent = await launch();
    return new Map(pods.map((pod) => [pod, askedAt]));
  }

  return {
    runtime,
    get pid() {
      return agent.pid;
    },
    start,
    removeAll,
    settled,
    async restart() {
      await agent.stop();
      agent = await launch();
      await settled();
    },
    fromNothing: { runtime, start: startFromNothing, removeAll, settled },
    usage,
    logBytes: async () => (await stat(agentLog)).size,
    stop: () => agent.stop(),
  };
}

const fileOf = (name: string) => `${name}.json`;
