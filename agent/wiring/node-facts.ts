import { readFileSync, statSync } from "node:fs";
import type { Clock } from "../../host/clock.ts";
import { type Files, FilesError, toFilesError } from "../../host/fs/files.ts";
import type { Machine } from "../../host/machine.ts";
import type { Proc } from "../../host/proc.ts";
import type { Config } from "../config/config.ts";
import { failStart, inOrder } from "../preflight/start-error.ts";
import { parseResolvConf } from "../translate/network/dns.ts";
import type { NodeFacts, ResolvConf } from "../translate/node-facts.ts";
import { TranslateError } from "../translate/translate-error.ts";

type Figures = Pick<NodeFacts, "memoryCapacityBytes" | "cpuCount" | "thermalThrottlePaths">;

type Kernel = Pick<NodeFacts, "swapCapacityBytes" | "hugePageSizes" | "hasCgroupV2" | "limitsSwap">;

type Configured = Pick<Config, Extract<keyof NodeFacts, keyof Config> | "resolvConf">;

/** What does not change while the agent runs, or is said as it was at the start. Throws `StartError`. */
export async function readFigures(
  proc: Proc,
  root: Files,
  machine: Machine,
): Promise<Figures & Kernel & { readonly storageCapacityBytes: number }> {
  const { totalBytes } = await root.space(".").catch(failStart("the root directory's size is not known", inOrder));
  return {
    memoryCapacityBytes: proc.memoryTotalBytes(),
    storageCapacityBytes: totalBytes,
    cpuCount: proc.cpuCount(),
    thermalThrottlePaths: proc.thermalThrottlePaths(),
    ...kernelOf(machine),
  };
}

/** What the machine's kernel can hold containers to. */
export function kernelOf({ swapBytes, hugePages, hasCgroupV2, limitsSwap }: Machine): Kernel {
  return {
    swapCapacityBytes: swapBytes,
    hugePageSizes: hugePages.map(({ pageBytes }) => pageBytes),
    hasCgroupV2,
    limitsSwap,
  };
}

/** The facts as they are whenever somebody asks; asking throws `TranslateError` while the host's resolv.conf cannot be read. */
export function factsOf(
  config: Configured,
  figures: Figures & Kernel & Pick<NodeFacts, "allocatable">,
  hostIPs: () => readonly string[],
  clock: Clock,
): () => NodeFacts {
  const resolvConf = createResolvConf(config.resolvConf, clock);
  return () => ({
    ...figures,
    nodeName: config.nodeName,
    hostIPs: hostIPs(),
    rootDir: config.rootDir,
    podLogsDir: config.podLogsDir,
    clusterDNS: config.clusterDNS,
    clusterDomain: config.clusterDomain,
    hostResolvConf: resolvConf(),
    cpuCFSQuota: config.cpuCFSQuota,
    cpuCFSQuotaPeriodMs: config.cpuCFSQuotaPeriodMs,
    singleProcessOOMKill: config.singleProcessOOMKill ?? false,
    swapBehavior: config.swapBehavior,
    podPidsLimit: config.podPidsLimit,
    seccompDefault: config.seccompDefault,
    containerStopSignals: config.containerStopSignals,
  });
}

const RESOLV_CONF_LASTS_MS = 1_000;

/** The host's resolver configuration: a hundred pods at once read it once, and a change of it reaches the next pod. */
function createResolvConf(path: string | undefined, clock: Clock): () => ResolvConf | undefined {
  let known: { readonly at: number; readonly conf: ResolvConf } | undefined;
  return () => {
    if (path === undefined) return undefined;
    const now = clock.now();
    if (known === undefined || Math.abs(now - known.at) > RESOLV_CONF_LASTS_MS)
      known = { at: now, conf: readResolvConf(path) };
    return known.conf;
  };
}

function readResolvConf(path: string): ResolvConf {
  try {
    // A FIFO without a writer would be read for ever.
    if (statSync(path).isFIFO()) throw new FilesError("ENOTFILE", path, `${path} is a fifo, not a regular file`);
    return parseResolvConf(readFileSync(path, "utf8"));
  } catch (error) {
    throw new TranslateError("ConfigPodSandboxError", `resolvConf: ${toFilesError(path, error).message}`);
  }
}
