import { isObject } from "../../proto/is-object.ts";
import { podAnnotationsCapability, secondaryNetworksKey } from "../../proto/kubernetes/well-known-names.ts";
import { type AttachmentKey, type CacheEntry, isOfPod } from "../cache-entry.ts";
import { cachedConfIfUsable } from "../cached-conf.ts";
import type { Attachment } from "../chain.ts";
import type { NetworkConf } from "../conf.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";
import { CniError, cniCodes } from "../error.ts";
import type { NetworkSelection } from "./network-selection.ts";

type Fields = Readonly<Record<string, unknown>>;

/** A network that a pod has beside its default one, with the interface and the arguments of its plugins. */
export interface SecondaryNetwork {
  /** `namespace/name` of its definition. */
  readonly name: string;
  readonly conf: NetworkConf;
  readonly ifName: string;
  readonly capabilityArgs: Fields;
}

/** What the runtime says of the pod itself. All else, such as its host ports, concerns the default interface alone. */
const ARGS_OF_THE_POD = ["dns", "cgroupPath", podAnnotationsCapability];

/**
 * A selected network with the arguments of its plugins: what the selection asks for, and what the runtime says of the pod.
 *
 * @throws CniError with code 7 if the selection asks for what no plugin of the network can do. NPWG standard, sections 4.1.2.1.3 to 4.1.2.1.10
 */
export function toSecondaryNetwork(
  { namespace, name, ifName, capabilityArgs }: NetworkSelection,
  conf: NetworkConf,
  given: Fields,
): SecondaryNetwork {
  const declared = declaredBy(conf);
  const missing = Object.keys(capabilityArgs).find((capability) => !declared.has(capability));
  if (missing !== undefined) {
    const message = `the pod asks the network ${namespace}/${name} for ${missing}, and no plugin of it declares this capability`;
    throw new CniError(cniCodes.invalidNetworkConf, message);
  }
  const ofPod = ARGS_OF_THE_POD.filter((key) => declared.has(key) && Object.hasOwn(given, key));
  return {
    name: `${namespace}/${name}`,
    conf,
    ifName,
    capabilityArgs: { ...Object.fromEntries(ofPod.map((key) => [key, given[key]])), ...capabilityArgs },
  };
}

/** The attachment of a secondary network in the sandbox of the default one. */
export function secondaryAttachment({ containerId, netns, args }: Attachment, secondary: SecondaryNetwork): Attachment {
  const { ifName, capabilityArgs } = secondary;
  return { containerId, netns, ifName, args, capabilityArgs };
}

/**
 * The arguments of the default network, with the secondary networks among them. No plugin gets these, and the cache keeps
 * them from before their ADD until after their DEL, so that DEL needs neither the pod nor the API server. The pod's
 * annotations, which may be large, are only among them if a plugin wants them.
 */
export function defaultCapabilityArgs(
  { plugins }: Pick<NetworkConf, "plugins">,
  given: Fields,
  secondaries: readonly SecondaryNetwork[],
): Fields {
  const { [podAnnotationsCapability]: annotations, ...others } = given;
  const areWanted = plugins.some(({ capabilities }) => capabilities.includes(podAnnotationsCapability));
  const kept = secondaries.map(({ conf, ...secondary }) => ({ config: conf.text, ...secondary }));
  return {
    ...others,
    ...(areWanted && annotations !== undefined && { [podAnnotationsCapability]: annotations }),
    ...(kept.length > 0 && { [secondaryNetworksKey]: kept }),
  };
}

/** The secondary networks in the cache entry of a default network, in the order of ADD. What another program has broken is left out. */
export function secondaryNetworksOf({
  capabilityArgs,
}: Pick<CacheEntry, "capabilityArgs">): readonly SecondaryNetwork[] {
  const kept = capabilityArgs[secondaryNetworksKey];
  return Array.isArray(kept) ? kept.flatMap((secondary: unknown) => decodeSecondary(secondary) ?? []) : [];
}

/**
 * The secondary networks of a pod by their own entries, for a pod whose default network has no entry, as when it is torn. The delegate's
 * entry and the loopback are the runtime's. So is an entry with an argument that no plugin of its network declares: runtimes cache all that
 * they know of the pod, `toSecondaryNetwork` keeps what is declared.
 */
export function findSecondaryNetworks(
  { containerId, ifName }: Pick<AttachmentKey, "containerId" | "ifName">,
  entries: readonly CacheEntry[],
): readonly SecondaryNetwork[] {
  const others = entries.filter((entry) => entry.containerId === containerId && ![ifName, "lo"].includes(entry.ifName));
  return others.flatMap((entry) => {
    const conf = cachedConfIfUsable(entry);
    if (conf?.name !== entry.network || entry.network === DELEGATE_NETWORK || !isOfPod(entry)) return [];
    const declared = declaredBy(conf);
    if (!Object.keys(entry.capabilityArgs).every((key) => declared.has(key))) return [];
    return [{ name: conf.name, conf, ifName: entry.ifName, capabilityArgs: entry.capabilityArgs }];
  });
}

const declaredBy = ({ plugins }: Pick<NetworkConf, "plugins">): ReadonlySet<string> =>
  new Set(plugins.flatMap(({ capabilities }) => capabilities));

function decodeSecondary(secondary: unknown): SecondaryNetwork | undefined {
  if (!isObject(secondary)) return undefined;
  const { name, config, ifName, capabilityArgs } = secondary;
  if (typeof config !== "string" || typeof ifName !== "string" || !isObject(capabilityArgs)) return undefined;
  const conf = cachedConfIfUsable({ config });
  // Entries of the first release have no name.
  return conf && { name: typeof name === "string" ? name : conf.name, conf, ifName, capabilityArgs };
}
