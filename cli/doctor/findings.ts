import { judgeApiServer } from "./api-server-findings.ts";
import { type CheckedSettings, checks, type Finding, type Judge } from "./finding.ts";
import { judgeFirewall } from "./firewall-findings.ts";
import {
  judgeCgroups,
  judgeClock,
  judgeMemory,
  judgeModules,
  judgeReservations,
  judgeSwap,
  judgeSysctls,
  judgeTemperature,
} from "./kernel-findings.ts";
import { judgeLoopback } from "./loopback-findings.ts";
import type { MachineFacts } from "./machine-facts.ts";
import { judgeNetwork } from "./network-findings.ts";
import {
  judgeAgent,
  judgeConfiguration,
  judgeDiskSpace,
  judgeDns,
  judgeFileModes,
  judgeKubeconfig,
  judgePodSources,
  judgePorts,
  judgeRootDirectory,
  judgeUser,
} from "./node-findings.ts";
import { judgeCgroupDriver, judgeRuntime } from "./runtime-findings.ts";

const judges: Readonly<Record<(typeof checks)[number], Judge>> = {
  user: judgeUser,
  configuration: judgeConfiguration,
  "pod-sources": judgePodSources,
  "container-runtime": judgeRuntime,
  "cgroup-driver": judgeCgroupDriver,
  network: (facts, settings) => [...judgeNetwork(facts, settings), ...judgeLoopback(facts, settings)],
  cgroups: judgeCgroups,
  reservations: judgeReservations,
  "kernel-modules": judgeModules,
  sysctls: judgeSysctls,
  firewall: judgeFirewall,
  memory: judgeMemory,
  swap: judgeSwap,
  clock: judgeClock,
  temperature: judgeTemperature,
  "root-directory": judgeRootDirectory,
  "disk-space": judgeDiskSpace,
  kubeconfig: judgeKubeconfig,
  "api-server": judgeApiServer,
  "file-modes": judgeFileModes,
  ports: judgePorts,
  dns: judgeDns,
  agent: judgeAgent,
};

/** Every check of the machine against the configuration, in a fixed order. Pure. */
export function findingsOf(facts: MachineFacts, settings: CheckedSettings): readonly Finding[] {
  return checks.flatMap((check) => judges[check](facts, settings));
}

export function hasProblem(findings: readonly Finding[]): boolean {
  return findings.some(({ state }) => state === "problem");
}
