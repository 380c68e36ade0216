import { readFileSync } from "node:fs";
import { type Files, toFilesError } from "../host/files.ts";
import type { Proc } from "../host/proc.ts";
import type { Config } from "./config/config.ts";
import { failStart, inOrder } from "./start-error.ts";
import { parseResolvConf } from "./translate/dns.ts";
import type { NodeFacts, ResolvConf } from "./translate/node-facts.ts";
import { TranslateError } from "./translate/translate-error.ts";

type Figures = Pick<NodeFacts, "memoryCapacityBytes" | "storageCapacityBytes" | "cpuCount" | "thermalThrottlePaths">;

type Configured = Pick<Config, Extract<keyof NodeFacts, keyof Config> | "resolvConf">;

/** What does not change while the agent runs, or is said as it was at the start. Throws `StartError`. */
export async function readFigures(proc: Proc, root: Files): Promise<Figures> {
  const { totalBytes } = await root.freeBytes(".").catch(failStart("the root directory's size is not known", inOrder));
  return {
    memoryCapacityBytes: proc.memoryTotalBytes(),
    storageCapacityBytes: totalBytes,
    cpuCount: proc.cpuCount(),
    thermalThrottlePaths: proc.thermalThrottlePaths(),
  };
}

/** The facts as they are whenever somebody asks; asking throws `TranslateError` while the host's resolv.conf cannot be read. */
export function factsOf(config: Configured, figures: Figures, hostIPs: () => readonly string[]): () => NodeFacts {
  return () => ({
    ...figures,
    nodeName: config.nodeName,
    hostIPs: hostIPs(),
    rootDir: config.rootDir,
    podLogsDir: config.podLogsDir,
    clusterDNS: config.clusterDNS,
    clusterDomain: config.clusterDomain,
    hostResolvConf: readResolvConf(config.resolvConf),
    cpuCFSQuota: config.cpuCFSQuota,
    cpuCFSQuotaPeriodMs: config.cpuCFSQuotaPeriodMs,
    seccompDefault: config.seccompDefault,
  });
}

function readResolvConf(path: string | undefined): ResolvConf | undefined {
  if (path === undefined) return undefined;
  try {
    return parseResolvConf(readFileSync(path, "utf8"));
  } catch (error) {
    throw new TranslateError("ConfigPodSandboxError", `resolvConf: ${toFilesError(path, error).message}`);
  }
}
