import { readFileSync, statSync } from "node:fs";
import { createTtlCache } from "../../host/async/ttl-cache.ts";
import type { Clock } from "../../host/clock.ts";
import { type Files, FilesError, toFilesError } from "../../host/fs/files.ts";
import type { Machine } from "../../host/machine.ts";
import { readPageBytes } from "../../host/page-size.ts";
import type { Proc } from "../../host/proc.ts";
import type { Config } from "../config/config.ts";
import { ROOT_DIR_HINT, toStartError } from "../preflight/start-error.ts";
import { parseResolvConf } from "../translate/network/resolv-conf.ts";
import type { NodeFacts, PodConfig, ResolvConf } from "../translate/node-facts.ts";
import { TranslateError } from "../translate/translate-error.ts";

type Capacity = Pick<NodeFacts, "memoryCapacityBytes" | "thermalThrottlePaths" | "pageBytes">;

type KernelFeatures = Pick<
  NodeFacts,
  "swapCapacityBytes" | "hugePageSizes" | "hasCgroupV2" | "limitsSwap" | "hasSELinux"
>;

type NodeFactsConfig = PodConfig & Pick<Config, "singleProcessOOMKill" | "resolvConf">;

/** Reads the machine's capacity and kernel features once, at the start. Throws `StartError`. */
export async function readCapacity(
  proc: Proc,
  root: Files,
  machine: Machine,
): Promise<Capacity & KernelFeatures & { readonly storageCapacityBytes: number }> {
  const { totalBytes } = await root
    .space(".")
    .catch(toStartError("cannot read the size of the root directory's file system", ROOT_DIR_HINT));
  return {
    memoryCapacityBytes: machine.memoryBytes,
    storageCapacityBytes: totalBytes,
    thermalThrottlePaths: proc.thermalThrottlePaths(),
    pageBytes: readPageBytes(),
    ...kernelFeaturesOf(machine),
  };
}

/**
 * The limits that the machine's kernel can enforce.
 *
 * @internal
 */
export function kernelFeaturesOf({
  swapBytes,
  hugePages,
  hasCgroupV2,
  limitsSwap,
  hasSELinux,
}: Machine): KernelFeatures {
  return {
    swapCapacityBytes: swapBytes,
    hugePageSizes: hugePages.map(({ pageBytes }) => pageBytes),
    hasCgroupV2,
    limitsSwap,
    hasSELinux,
  };
}

/**
 * Returns a function that returns the current facts; it throws `TranslateError` while the host's resolv.conf cannot be
 * read.
 */
export function createNodeFacts(
  config: NodeFactsConfig,
  capacity: Capacity & KernelFeatures & Pick<NodeFacts, "allocatable">,
  hostIPs: () => readonly string[],
  clock: Clock,
): () => NodeFacts {
  const resolvConf = createResolvConfReader(config.resolvConf, clock);
  const fixed = { ...config, ...capacity, singleProcessOOMKill: config.singleProcessOOMKill ?? false };
  return () => ({ ...fixed, hostIPs: hostIPs(), hostResolvConf: resolvConf() });
}

const RESOLV_CONF_TTL_MS = 1_000;

/**
 * Reads the host's resolver configuration. A hundred pods that start at once share one read; later pods see changes.
 */
function createResolvConfReader(path: string | undefined, clock: Clock): () => ResolvConf | undefined {
  const cache = createTtlCache<ResolvConf>({ maxEntries: 1, clock });
  return () => {
    if (path === undefined) return undefined;
    const known = cache.get(path);
    if (known !== undefined) return known;
    const conf = readResolvConf(path);
    cache.set(path, conf, RESOLV_CONF_TTL_MS);
    return conf;
  };
}

function readResolvConf(path: string): ResolvConf {
  try {
    // Reading a FIFO without a writer would block for ever.
    if (statSync(path).isFIFO()) throw new FilesError("ENOTFILE", path, `${path} is a fifo, not a regular file`);
    return parseResolvConf(readFileSync(path, "utf8"));
  } catch (error) {
    throw new TranslateError("ConfigPodSandboxError", `resolvConf: ${toFilesError(path, error).message}`);
  }
}
