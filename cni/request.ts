import type { NetworkConf, PluginConf } from "./conf.ts";

/** The container id and the interface of an attachment that is still in use, as GC passes them on. */
export interface ValidAttachment {
  readonly containerID: string;
  readonly ifname: string;
}

export interface RequestInput {
  /** What the runtime has for each capability; a plugin gets those that it declares. */
  readonly capabilityArgs?: Readonly<Record<string, unknown>>;
  /** The previous result, in the version of the network. */
  readonly prevResult?: Readonly<Record<string, unknown>> | undefined;
  readonly validAttachments?: readonly ValidAttachment[];
}

/**
 * The configuration that one plugin of a network gets on its standard input: its fields as they were read, with what the
 * specification inserts and without what it reserves. Specification, section 3, "Deriving request configuration".
 */
export function deriveRequest(
  { name, cniVersion }: Pick<NetworkConf, "name" | "cniVersion">,
  { fields, capabilities }: Pick<PluginConf, "fields" | "capabilities">,
  { capabilityArgs = {}, prevResult, validAttachments }: RequestInput,
): Readonly<Record<string, unknown>> {
  const kept = Object.entries(fields).filter(([key]) => !isReserved(key));
  const given = capabilities.filter((capability) => Object.hasOwn(capabilityArgs, capability));
  const runtimeConfig = Object.fromEntries(given.map((capability) => [capability, capabilityArgs[capability]]));
  return {
    ...Object.fromEntries(kept),
    cniVersion,
    name,
    ...(given.length > 0 && { runtimeConfig }),
    ...(prevResult !== undefined && { prevResult }),
    ...(validAttachments !== undefined && {
      "cni.dev/valid-attachments": validAttachments,
      // The name by which libcni 1.2 passed them on: plugins of that time read it.
      "cni.dev/attachments": validAttachments,
    }),
  };
}

/** Keys that only the runtime may set, and one that plugins must not get. */
function isReserved(key: string): boolean {
  return key === "capabilities" || key === "prevResult" || key.startsWith("cni.dev/");
}
