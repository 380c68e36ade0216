import { type CacheEntry, keyOfFileName } from "../../cni/cache-entry.ts";
import { namespaceOf, stateOfNamespace } from "../../cni/cached-namespace.ts";
import { loadNetwork, readConfDir } from "../../cni/conf-dir.ts";
import { originOf } from "../../cni/delegate/attachment-origin.ts";
import { DELEGATE_NETWORK } from "../../cni/delegate-network.ts";
import { ASIDE_SUFFIX } from "../../cni/result-cache.ts";
import { findInstalledAgents, type InstalledAgent } from "./installed-agents.ts";
import { attachmentFields, networkFields } from "./json-fields.ts";
import type { CniSettings } from "./settings.ts";
import { type SuggestedCall, suggestedCniCommand, suggestedDeletion } from "./suggested-cni-command.ts";
import { cachedAttachmentTable, type ListedAttachment, networkTable, podOf, unreadableTable } from "./tables.ts";
import type { CniAnswer, CniVerbDeps } from "./verbs.ts";

type ListDeps = Pick<CniVerbDeps, "files" | "cache" | "isNamespace" | "findDelegateDirs" | "columns" | "programName">;

/** `berth cni list`: the networks of a folder, who executes them, and the attachments in the cache. */
export async function listNetworks(settings: CniSettings, deps: ListDeps): Promise<CniAnswer> {
  const { confDir, network } = settings;
  const { files, cache, columns, programName } = deps;
  const call = { ...settings, programName };
  const all = await readConfDir(files, confDir);
  const found = all.filter((entry) => network === undefined || ("conf" in entry && entry.conf.name === network));
  const { entries, unreadable } = await cache.list();
  const own = entries.filter((entry) => network === undefined || entry.network === network);
  const torn = unreadable.filter(
    (file) => network === undefined || keyOfFileName(file.fileName, network) !== undefined,
  );
  // Says which networks there are. One without a list may still have attachments.
  if (network !== undefined && found.length + own.length + torn.length === 0)
    await loadNetwork(files, confDir, network);
  const attachments = await Promise.all(own.map((entry) => listed(entry, entries, deps)));
  const executed = executorText(await findInstalledAgents(deps), call);
  const text = all.length === 0 ? `${confDir} has no network configuration\n` : networkTable(found, own, columns);
  const tables = [
    ...(attachments.length === 0 ? [] : [cachedAttachmentTable(attachments, columns) + goneText(attachments, call)]),
    ...(torn.length === 0 ? [] : [unreadableTable(torn, columns) + tornText(call)]),
  ];
  return {
    text: [text + executed, ...tables].join("\n"),
    json: {
      networks: found.map((entry) => ({
        file: entry.file,
        ...("problem" in entry ? { problem: entry.problem.message } : networkFields(entry.conf)),
      })),
      attachments: attachments.map(jsonOf),
      unreadable: torn.map(({ asideName, reason }) => ({ file: asideName, reason })),
    },
    isGood: found.length > 0 && found.every((entry) => "conf" in entry),
  };
}

async function listed(
  entry: CacheEntry,
  entries: readonly CacheEntry[],
  { isNamespace }: Pick<ListDeps, "isNamespace">,
): Promise<ListedAttachment> {
  const netns = await stateOfNamespace(entry, isNamespace);
  return { entry, origin: originOf(entry, entries), state: netns === "mounted" ? "in use" : netns };
}

function jsonOf({ entry, origin, state }: ListedAttachment): Readonly<Record<string, unknown>> {
  const pod = podOf(entry);
  const made = { madeBy: origin.by, ...("socket" in origin && { socket: origin.socket }) };
  return {
    ...attachmentFields(entry),
    ...(pod !== undefined && { pod }),
    netns: namespaceOf(entry),
    netnsState: state,
    ...made,
  };
}

/** Who deletes the attachments of pods that no longer exist. An agent deletes its own: GC by the user would be needless. */
function goneText(attachments: readonly ListedAttachment[], call: SuggestedCall): string {
  const gone = attachments.filter(({ state }) => state === "gone");
  const sockets = new Set(gone.flatMap(({ origin }) => ("socket" in origin ? [origin.socket] : [])));
  const networks = gone.flatMap(({ origin, entry }) => ("socket" in origin ? [] : [entry.network]));
  const names = [...new Set(networks)].filter((name) => name !== DELEGATE_NETWORK);
  return [
    ...names.map((name) => {
      const command = suggestedCniCommand(["gc", name], call);
      return `${command} deletes the attachments of the network ${name} whose network namespace is gone\n`;
    }),
    ...[...sockets].map(
      (socket) => `the agent on ${socket} deletes its own when it starts, and after an outage of the runtime\n`,
    ),
  ].join("");
}

/** A torn file does not say whether its attachment still exists: only the user knows. */
function tornText(call: SuggestedCall): string {
  const command = suggestedDeletion("NETWORK", call);
  return `when the pod of NETWORK-ID-NAME${ASIDE_SUFFIX} is gone, delete its attachment by ${command}\n`;
}

/** Which agent executes the networks of pods, and the command that shows them with their attachments. Empty if the container runtime executes them. */
function executorText(agents: readonly InstalledAgent[], call: SuggestedCall): string {
  return agents
    .map(({ socket, confDir, binDirs, cacheDir }) => {
      if (confDir === call.confDir && cacheDir === call.cacheDir)
        return `the agent on ${socket} executes the first network above for pods\n`;
      const list = suggestedCniCommand(["list"], { ...call, confDir, binDirs, cacheDir });
      return `the agent on ${socket} executes the first network of ${confDir} for pods: ${list}\n`;
    })
    .join("");
}
