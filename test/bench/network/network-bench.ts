import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { builtVersion } from "../../upstream/programs.ts";
import { podShape } from "../bench-pod.ts";
import type { ClusterBenchOptions } from "../cluster/cluster-bench.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import { describeIdle } from "../idle-windows.ts";
import { IDLE_PODS, type NetworkEffort, type NetworkResult } from "./network-rounds.ts";

export const describeNetworkEffort = (effort: NetworkEffort): string =>
  `One pod ${effort.singles} times, ${BATCH_SIZE} pods ${effort.batches} times, CPU ${effort.cpuRounds} times, ${describeIdle(effort, "the agents")}, without pods and with ${IDLE_PODS}; floor, kubelet ${builtVersion().split("-")[0]} and berth with the chain of the runtime, with the same chain and with the built-in network alternated who began, as nodes of one cluster in a network namespace of their own; agents that were not measured were stopped (SIGSTOP). ${podShape}`;

export type NetworkBenchOptions = Omit<ClusterBenchOptions, "effort"> & { readonly effort: NetworkEffort };

/** What the process in the namespace gets. */
export type NetworkProcessOptions = Omit<NetworkBenchOptions, "interruption">;

/** Measures the network of pods in a process with a network namespace of its own, which takes the built-in network with it at its end. */
export async function benchNetwork({ interruption, ...options }: NetworkBenchOptions): Promise<NetworkResult> {
  const folder = join(options.folder, "network");
  await mkdir(folder, { recursive: true });
  const [optionsFile, resultFile] = [join(folder, "options.json"), join(folder, "result.json")];
  const forProcess: NetworkProcessOptions = { ...options, folder };
  await writeFile(optionsFile, JSON.stringify(forProcess));
  const argv = ["--net", process.execPath, join(import.meta.dirname, "network-process.ts"), optionsFile, resultFile];
  const child = execa("unshare", argv, { stdio: "inherit", forceKillAfterDelay: 60_000 });
  try {
    await Promise.race([child, interruption]);
  } finally {
    child.kill();
    // The race has thrown its error already.
    await child.catch(() => undefined);
  }
  return JSON.parse(await readFile(resultFile, "utf8")) as NetworkResult;
}
