import type { KubeletConfiguration } from "../../proto/kubelet/config.ts";
import type { Json } from "../../proto/yaml/node.ts";
import type { Config, FlagSettings } from "./config.ts";
import { parseDuration } from "./duration.ts";
import { flagGroups } from "./flag-table.ts";
import type { Gates } from "./gates.ts";
import type { Settings } from "./settings.ts";

const longestRestartPeriod = "5m";

/**
 * The whole configuration in the shape and the units that the agent uses. Everything in it has been checked before.
 * `absolute` resolves a path against the working directory.
 */
export function resolveConfig(
  kubelet: KubeletConfiguration,
  flags: FlagSettings,
  gates: Gates,
  nodeName: string,
  absolute: (path: string) => string,
): Config {
  const runtime = withScheme(kubelet.containerRuntimeEndpoint);
  const parallel = kubelet.serializeImagePulls ? 1 : kubelet.maxParallelImagePulls;
  return {
    kubelet,
    flags,
    gates,
    nodeName,
    rootDir: absolute(flags.rootDir),
    certDir: absolute(flags.certDir),
    kubeconfig: orUndefined(absolute(flags.kubeconfig)),
    nodeIPs: flags.nodeIP === "" ? [] : flags.nodeIP.split(",").map((address) => address.trim()),
    staticPodPath: orUndefined(absolute(kubelet.staticPodPath)),
    staticPodURL: orUndefined(kubelet.staticPodURL),
    staticPodURLHeader: kubelet.staticPodURLHeader,
    fileCheckFrequencyMs: msOf(kubelet.fileCheckFrequency),
    httpCheckFrequencyMs: msOf(kubelet.httpCheckFrequency),
    syncFrequencyMs: msOf(kubelet.syncFrequency),
    containerRuntimeEndpoint: runtime,
    imageServiceEndpoint: kubelet.imageServiceEndpoint === "" ? runtime : withScheme(kubelet.imageServiceEndpoint),
    runtimeRequestTimeoutMs: msOf(kubelet.runtimeRequestTimeout),
    podLogsDir: kubelet.podLogsDir,
    serializeImagePulls: kubelet.serializeImagePulls,
    maxParallelImagePulls: parallel,
    registryPullQPS: kubelet.registryPullQPS,
    registryBurst: kubelet.registryBurst,
    maxContainerRestartPeriodMs: msOf(kubelet.crashLoopBackOff.maxContainerRestartPeriod ?? longestRestartPeriod),
    clusterDNS: kubelet.clusterDNS,
    clusterDomain: kubelet.clusterDomain,
    resolvConf: orUndefined(absolute(kubelet.resolvConf)),
    maxPods: kubelet.maxPods,
    podsPerCore: kubelet.podsPerCore,
    cgroupsPerQOS: kubelet.cgroupsPerQOS,
    cpuCFSQuota: kubelet.cpuCFSQuota,
    cpuCFSQuotaPeriodMs: msOf(kubelet.cpuCFSQuotaPeriod),
    failSwapOn: kubelet.failSwapOn,
    failCgroupV1: kubelet.failCgroupV1,
    seccompDefault: kubelet.seccompDefault,
    oomScoreAdj: kubelet.oomScoreAdj,
    logging: { format: kubelet.logging.format, verbosity: kubelet.logging.verbosity },
  };
}

/** The settings that are flags alone, each with its default where it was not given. */
export function resolveFlags({ byName }: Settings): FlagSettings {
  const defaults = new Map(flagGroups.flatMap(({ flags }) => flags).map((flag) => [flag.name, flag.default]));
  const text = (name: string) => String(byName.get(name)?.value ?? defaults.get(name) ?? "");
  return {
    kubeconfig: text("kubeconfig"),
    bootstrapKubeconfig: text("bootstrap-kubeconfig"),
    certDir: text("cert-dir"),
    rootDir: text("root-dir"),
    hostnameOverride: text("hostname-override"),
    config: text("config"),
    configDir: text("config-dir"),
    nodeIP: text("node-ip"),
    nodeLabels: labelsOf(byName.get("node-labels")?.value),
    cloudProvider: text("cloud-provider") === "external" ? "external" : "",
    imageCredentialProviderConfig: text("image-credential-provider-config"),
    imageCredentialProviderBinDir: text("image-credential-provider-bin-dir"),
    runtimeCgroups: text("runtime-cgroups"),
    lockFile: text("lock-file"),
    exitOnLockContention: text("exit-on-lock-contention") === "true",
  };
}

/** Makes a value and everything below it unchangeable. */
export function freezeDeep<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const below of Object.values(value)) freezeDeep(below);
  return Object.freeze(value);
}

function labelsOf(value: Json | undefined): Readonly<Record<string, string>> {
  if (value === undefined || value === null || typeof value !== "object") return {};
  return Object.fromEntries(Object.entries(value).map(([key, label]) => [key, String(label)]));
}

/** A path alone means a unix socket, as it does to the kubelet. */
function withScheme(endpoint: string): string {
  return endpoint.startsWith("/") ? `unix://${endpoint}` : endpoint;
}

function orUndefined(text: string): string | undefined {
  return text === "" ? undefined : text;
}

function msOf(duration: string): number {
  return parseDuration(duration) ?? 0;
}
