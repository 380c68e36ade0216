import type { NetworkConf } from "./conf.ts";

/** The `type` of the delegate: the plugin that hands the runtime's calls over to the agent. Its binary has this name. */
export const DELEGATE_TYPE = "berth-cni";

/** The file of the delegate's list, in the folder that the container runtime reads. */
export const DELEGATE_LIST_FILE = "10-berth.conflist";

/** The name of the delegate's network. The chain has a name of its own, so that both have entries in the cache. */
export const DELEGATE_NETWORK = "berth-delegate";

/** Whether a network contains the delegate, which would call itself without end. */
export function containsDelegate({ plugins }: Pick<NetworkConf, "plugins">): boolean {
  return plugins.some(({ type }) => type === DELEGATE_TYPE);
}
