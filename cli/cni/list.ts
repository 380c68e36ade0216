import { DELEGATE_DIR } from "../../agent/config/config.ts";
import { type CacheEntry, keyOfFileName } from "../../cni/cache-entry.ts";
import { loadNetwork, readConfDir } from "../../cni/conf-dir.ts";
import { originOf } from "../../cni/delegate/attachment-origin.ts";
import { chainFolderOf } from "../../cni/delegate/builtin-list.ts";
import { delegateOf } from "../../cni/delegate/delegate-conf.ts";
import { DELEGATE_NETWORK } from "../../cni/delegate-network.ts";
import { CniError } from "../../cni/error.ts";
import { attachmentFields, networkFields } from "./json-fields.ts";
import type { CniSettings } from "./settings.ts";
import { cachedAttachmentTable, type ListedAttachment, networkTable, podOf, unreadableTable } from "./tables.ts";
import type { CniAnswer, CniVerbDeps } from "./verbs.ts";

type ListDeps = Pick<CniVerbDeps, "files" | "cache" | "isNamespace" | "columns">;

/** `berth cni list`: the networks of a folder, who executes them, and the attachments in the cache. */
export async function listNetworks({ confDir, network }: CniSettings, deps: ListDeps): Promise<CniAnswer> {
  const { files, cache, columns } = deps;
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
  const delegates = await delegatesOf(files);
  const executed = executorText(delegates, confDir);
  const text = all.length === 0 ? `${confDir} has no network configuration\n` : networkTable(found, own, columns);
  const tables = [
    ...(attachments.length === 0 ? [] : [cachedAttachmentTable(attachments, columns) + goneText(attachments)]),
    ...(torn.length === 0 ? [] : [`${unreadableTable(torn, columns)}berth cni gc NETWORK removes their attachments\n`]),
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
  const { netns } = entry;
  const state = netns === "" ? "unknown" : (await isNamespace(netns)) ? "in use" : "gone";
  return { entry, origin: originOf(entry, entries), state };
}

function jsonOf({ entry, origin, state }: ListedAttachment): Readonly<Record<string, unknown>> {
  const pod = podOf(entry);
  const made = { madeBy: origin.by, ...("socket" in origin && { socket: origin.socket }) };
  return {
    ...attachmentFields(entry),
    ...(pod !== undefined && { pod }),
    netns: entry.netns,
    namespace: state,
    ...made,
  };
}

/** Who removes the attachments of pods that no longer exist. */
function goneText(attachments: readonly ListedAttachment[]): string {
  const gone = attachments.filter(({ state }) => state === "gone");
  if (gone.length === 0) return "";
  const names = [...new Set(gone.map(({ entry }) => entry.network))].filter((name) => name !== DELEGATE_NETWORK);
  const lines = names.map((name) => `berth cni gc ${name} removes those of ${name} whose namespace is gone\n`);
  const isOfAgent = gone.some(({ origin }) => origin.by === "agent" || origin.by === "delegate");
  const byAgent = "an agent removes its own, after it has listed the container runtime\n";
  return [...lines, ...(isOfAgent ? [byAgent] : [])].join("");
}

interface InstalledDelegate {
  readonly socket: string;
  /** The folder whose first network the agent executes. */
  readonly folder: string;
}

/** The agents that execute the networks of pods on this machine, by what `berth cni install` has written into its usual folder. */
async function delegatesOf(files: ListDeps["files"]): Promise<readonly InstalledDelegate[]> {
  const found: InstalledDelegate[] = [];
  for (const entry of await readConfDir(files, DELEGATE_DIR)) {
    const delegate = "conf" in entry ? delegateIfUsable(entry.conf) : undefined;
    if (delegate !== undefined) found.push({ socket: delegate.socket, folder: await chainFolderOf(files, delegate) });
  }
  return found;
}

function delegateIfUsable(conf: Parameters<typeof delegateOf>[0]): ReturnType<typeof delegateOf> {
  try {
    return delegateOf(conf);
  } catch (error) {
    if (error instanceof CniError) return undefined;
    throw error;
  }
}

/** Which agent executes the networks of pods, and from where. Without one the container runtime does: nothing is to be said. */
function executorText(delegates: readonly InstalledDelegate[], confDir: string): string {
  return delegates
    .map(({ socket, folder }) =>
      folder === confDir
        ? `the agent on ${socket} executes the first one for pods\n`
        : `the agent on ${socket} executes the first network of ${folder} for pods: berth cni list --conf-dir ${folder}\n`,
    )
    .join("");
}
