import type { AttachmentKey, CacheEntry } from "../../cni/cache-entry.ts";
import type { ConfFile } from "../../cni/conf-dir.ts";
import type { AttachmentOrigin } from "../../cni/delegate/attachment-origin.ts";
import type { PluginCallRecord } from "../../cni/plugin-calls.ts";
import type { CniResult } from "../../cni/result.ts";
import type { UnreadableEntry } from "../../cni/result-cache.ts";
import type { NetworkPod } from "../../cni/secondary/pod-networks.ts";
import { fitColumns } from "../columns.ts";

type Rows = readonly (readonly string[])[];

/** The networks of a folder in their order, with the attachments that the cache has of each. */
export function networkTable(
  found: readonly ConfFile[],
  attachments: readonly AttachmentKey[],
  columns: number,
): string {
  const rows = found.map((entry) => {
    if ("problem" in entry) return [fileName(entry.file), "-", "-", "-", entry.problem.message];
    const { name, cniVersion, plugins } = entry.conf;
    const count = attachments.filter(({ network }) => network === name).length;
    return [fileName(entry.file), name, cniVersion, String(count), plugins.map(({ type }) => type).join(", ")];
  });
  return table([["FILE", "NETWORK", "VERSION", "ATTACHMENTS", "PLUGINS"], ...rows], columns, [
    "VERSION",
    "ATTACHMENTS",
  ]);
}

/** The interfaces and addresses of an attachment. */
export function resultTable({ interfaces, ips, routes }: CniResult, columns: number): string {
  const addressesOf = (index: number) =>
    ips.filter((ip) => ip.interface === index).map(({ address, gateway }) => withGateway(address, gateway));
  const rows = interfaces.map(({ name, mac, sandbox }, index) => [
    name,
    mac ?? "-",
    sandbox === undefined ? "host" : "container",
    addressesOf(index).join(", ") || "-",
  ]);
  // Versions before 0.3.0 name no interface, and an address need not have one.
  const others = ips.filter((ip) => ip.interface === undefined);
  const more = others.map(({ address, gateway }) => ["-", "-", "container", withGateway(address, gateway)]);
  const lines = routes.map(({ dst, gw }) => `route to ${dst}${gw === undefined ? "" : ` via ${gw}`}\n`);
  return table([["INTERFACE", "MAC", "WHERE", "ADDRESSES"], ...rows, ...more], columns, ["MAC"]) + lines.join("");
}

const withGateway = (address: string, gateway?: string) =>
  gateway === undefined ? address : `${address} via ${gateway}`;

/** What was done, and how long each plugin took: `eth0 of web in the network pods is attached: bridge 21.0 ms, portmap 9.0 ms`. */
export function doneLine(what: string, calls: readonly PluginCallRecord[]): string {
  return `${what}: ${calls.map(({ plugin, durationMs }) => `${plugin} ${durationMs.toFixed(1)} ms`).join(", ")}\n`;
}

/** The binary of a plugin and the versions that it speaks, or why it cannot be used. */
export interface PluginState {
  readonly plugin: string;
  readonly binary: string | undefined;
  readonly versions: readonly string[];
  readonly problem: string | undefined;
}

export function pluginTable(plugins: readonly PluginState[], columns: number): string {
  const rows = plugins.map(({ plugin, binary, versions, problem }) => [
    plugin,
    binary ?? "-",
    versions.join(" ") || "-",
    problem ?? "ok",
  ]);
  return table([["PLUGIN", "BINARY", "VERSIONS", "STATE"], ...rows], columns, ["VERSIONS", "BINARY"]);
}

export function attachmentTable(attachments: readonly AttachmentKey[], columns: number): string {
  const rows = attachments.map(({ network, containerId, ifName }) => [network, containerId, ifName]);
  return table([["NETWORK", "CONTAINER", "INTERFACE"], ...rows], columns, []);
}

/** An attachment in the cache, with what the machine shows of it. */
export interface ListedAttachment {
  readonly entry: CacheEntry;
  readonly origin: AttachmentOrigin;
  /** `unknown` if the cache does not say which namespace it has. */
  readonly state: "in use" | "gone" | "unknown";
}

/** The attachments in the cache, who has made them, and whether their network namespaces still exist. */
export function cachedAttachmentTable(attachments: readonly ListedAttachment[], columns: number): string {
  const rows = attachments.map(({ entry, origin, state }) => {
    const { network, containerId, ifName } = entry;
    const pod = podOf(entry);
    return [
      network,
      pod === undefined ? "-" : `${pod.namespace}/${pod.name}`,
      ifName,
      state,
      originText(origin),
      containerId,
    ];
  });
  return table([["NETWORK", "POD", "INTERFACE", "NETNS", "MADE BY", "CONTAINER"], ...rows], columns, []);
}

function originText(origin: AttachmentOrigin): string {
  switch (origin.by) {
    case "agent":
      return `the agent on ${origin.socket}`;
    case "runtimeViaAgent":
      return `the runtime, through the agent on ${origin.socket}`;
    case "runtime":
      return "a container runtime";
    case "cnitool":
      return "berth cni or cnitool";
    case "other":
      return "another program";
  }
}

/** The files of the cache that hold no entry, as they are named now. Nothing but the name is known of their attachments. */
export function unreadableTable(unreadable: readonly UnreadableEntry[], columns: number): string {
  const rows = unreadable.map(({ asideName, reason }) => [asideName, reason]);
  return table([["UNREADABLE CACHE FILE", "REASON"], ...rows], columns, []);
}

/** The pod that a container runtime has named in CNI_ARGS; undefined for an attachment that was made by hand. */
export function podOf({ args }: Pick<CacheEntry, "args">): Pick<NetworkPod, "namespace" | "name"> | undefined {
  const [namespace, name] = [args.get("K8S_POD_NAMESPACE"), args.get("K8S_POD_NAME")];
  return namespace === undefined || name === undefined ? undefined : { namespace, name };
}

function table(rows: Rows, columns: number, optional: readonly string[]): string {
  const { lines } = fitColumns(rows, { columns, optional, shortened: rows[0]?.[0] ?? "" });
  return lines.map((line) => `${line}\n`).join("");
}

const fileName = (path: string) => path.slice(path.lastIndexOf("/") + 1);
