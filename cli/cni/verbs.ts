import { DELEGATE_DIR } from "../../agent/config/config.ts";
import type { KeptNetwork } from "../../cni/builtin/remove-network.ts";
import { stateOfNamespace } from "../../cni/cached-namespace.ts";
import type { Attachment } from "../../cni/chain.ts";
import { binariesOf, type NetworkConf } from "../../cni/conf.ts";
import { loadNetwork, readConfDir } from "../../cni/conf-dir.ts";
import { CniError, cniCodes, describeCniError } from "../../cni/error.ts";
import type { Executor } from "../../cni/executor.ts";
import type { CachedAttachment, ChooseValid, Cni } from "../../cni/network.ts";
import type { PluginBinaries } from "../../cni/plugin-binaries.ts";
import type { InProcessPlugin } from "../../cni/plugin-call.ts";
import type { PluginCallRecord } from "../../cni/plugin-calls.ts";
import { formatResult } from "../../cni/result.ts";
import type { ResultCache } from "../../cni/result-cache.ts";
import { cniVersions, isAtLeast } from "../../cni/version.ts";
import { shellWord } from "../../proto/shell-word.ts";
import { type InstallationDeps, installDelegate, uninstallDelegate } from "./installation.ts";
import { withNetworksOfAgents } from "./installed-agents.ts";
import { attachmentFields, networkFields } from "./json-fields.ts";
import { listNetworks } from "./list.ts";
import type { CniCommandVerb, CniSettings } from "./settings.ts";
import { type SuggestedCall, suggestedCniCommand, suggestedDeletion } from "./suggested-cni-command.ts";
import { attachmentTable, doneLine, type PluginState, pluginTable, resultTable } from "./tables.ts";

export interface CniVerbDeps extends InstallationDeps {
  readonly cni: Cni;
  readonly cache: ResultCache;
  readonly binaries: PluginBinaries;
  /** The plugins of this process by their `type`. */
  readonly inProcess: ReadonlyMap<string, InProcessPlugin>;
  /** Whether a network namespace is mounted at a path. */
  readonly isNamespace: (path: string) => Promise<boolean>;
  /** The calls of plugins so far. */
  readonly calls: readonly PluginCallRecord[];
  readonly signal: AbortSignal;
  readonly removeIdleNetworks: Executor["removeIdleNetworks"];
  /** The folders that may have a delegate's list. */
  readonly findDelegateDirs: () => Promise<readonly string[]>;
  /** What the user has typed to run this program. */
  readonly programName: string;
  /** The width of the terminal. */
  readonly columns: number;
}

/** What a verb shows: a text for people, a value for programs, and whether all is well. */
export interface CniAnswer {
  readonly text: string;
  readonly json: unknown;
  readonly isGood: boolean;
}

type Run = (settings: CniSettings, deps: CniVerbDeps) => Promise<CniAnswer>;

/** Each verb of `berth cni`. Rejects with `CniError` or `FilesError`. */
export const runVerb: Readonly<Record<CniCommandVerb, Run>> = {
  list: listNetworks,

  async add(settings, deps) {
    const conf = await networkOf(settings, deps);
    const { netns } = settings;
    if (!(await deps.isNamespace(netns)))
      throw new CniError(
        cniCodes.invalidNetns,
        `--netns: ${netns} is no network namespace; ip netns add NAME makes one`,
      );
    const { result, isCached } = await deps.cni.add(conf, attachmentIn(settings), deps.signal);
    const what = attachmentText(settings, conf.name);
    const note = `${what} is attached already, by an earlier add; del removes it\n`;
    const text = resultTable(result, deps.columns) + (isCached ? note : doneLine(`${what} is attached`, deps.calls));
    return { text, json: formatResult(result, conf.cniVersion), isGood: true };
  },

  async check(settings, deps) {
    const conf = await networkOf(settings, deps);
    const outcome = await deps.cni.check(conf, attachmentIn(settings), deps.signal);
    const what = attachmentText(settings, conf.name);
    const text =
      outcome === "checked"
        ? doneLine(`${what} still is as add has made it`, deps.calls)
        : `nothing was checked: the network ${conf.name} has disableCheck\n`;
    return { text, json: { outcome }, isGood: true };
  },

  async del(settings, deps) {
    const { network } = settings;
    // A network that has no file any more is deleted with the configuration in the cache.
    const conf = network === undefined ? await networkOf(settings, deps) : await findNetwork(settings, deps);
    const name = conf?.name ?? network ?? "";
    const { containerId, ifName } = settings;
    const isKnown = (await deps.cache.read({ network: name, containerId, ifName })) !== undefined;
    await deps.cni.del(name, attachmentIn(settings), conf, deps.signal);
    const what = attachmentText(settings, name);
    // A second del is no failure, but a mistyped id looks like one.
    const done = isKnown ? `${what} is removed` : `${what} is not in the cache; its plugins were called all the same`;
    return { text: doneLine(done, deps.calls), json: {}, isGood: true };
  },

  async gc(settings, deps) {
    const conf = await networkOf(settings, deps);
    const inUse: CachedAttachment[] = [];
    const unknown: CachedAttachment[] = [];
    let hasKilledAdds = false;
    const chooseValid: ChooseValid = async (cached) => {
      if (cached.length === 0 && !settings.isOfAll) throw emptyCache(conf.name, settings.cacheDir);
      for (const attachment of cached) {
        if (attachment.isOfKilledAdd === true) {
          hasKilledAdds = true;
          continue;
        }
        const netns = await stateOfNamespace(attachment, deps.isNamespace);
        if (netns === "gone") continue;
        inUse.push(attachment);
        // A pod may still run in a namespace that the cache does not name.
        if (netns === "unknown") unknown.push(attachment);
      }
      return inUse;
    };
    const deleted = await deps.cni.gc(conf, chooseValid, deps.signal);
    if (deleted === undefined)
      return {
        text: `nothing was collected: the network ${conf.name} has disableGC\n`,
        json: { outcome: "disabled" },
        isGood: true,
      };
    const noGC = isAtLeast(conf.cniVersion, "1.1.0")
      ? ""
      : `; its cniVersion ${conf.cniVersion} has no GC, so what plugins keep of others stays`;
    const kept = unknownText(unknown.length, conf.name, { ...settings, programName: deps.programName });
    const text = `${conf.name}: ${deletionText(deleted.length, hasKilledAdds)} ${inUse.length} in use${noGC}\n${kept}`;
    return {
      text: deleted.length === 0 ? text : `${attachmentTable(deleted, deps.columns)}${text}`,
      json: {
        deleted: deleted.map(attachmentFields),
        inUse: inUse.map(attachmentFields),
        unknownNamespace: unknown.map(attachmentFields),
      },
      isGood: true,
    };
  },

  async status(settings, deps) {
    const conf = await networkOf(settings, deps);
    const plugins: PluginState[] = [];
    for (const plugin of binariesOf(conf)) plugins.push(await stateOf(plugin, conf, deps));
    const isUsable = plugins.every(({ problem }) => problem === undefined);
    const { state, isReady } = isUsable
      ? await statusOf(conf, deps)
      : { state: "not ready: a plugin cannot be used", isReady: false };
    const text = `${pluginTable(plugins, deps.columns)}\n${conf.name}: ${state}\n`;
    return { text, json: { ...networkFields(conf), plugins, state, isReady }, isGood: isReady };
  },

  async install(settings, deps) {
    const { list, binary, hasChain } = await installDelegate(settings, deps);
    const { confDir, chainDir } = settings;
    const flag = confDir === DELEGATE_DIR ? "" : ` with --network-delegate-dir=${shellWord(confDir)}`;
    const next = `restart the agent${flag}, and the container runtime with conf_dir = ${JSON.stringify(confDir)}`;
    const missing = `${chainDir} has no network configuration. Until it has one, the agent of a standalone node executes the built-in network, and a node of a cluster is not Ready; --network of berth run changes that\n`;
    const text = `${list} and ${binary} are installed; ${next}\n${LOOPBACK_LINE}${hasChain ? "" : missing}`;
    return { text, json: { list, binary, hasChain }, isGood: true };
  },

  async uninstall(settings, deps) {
    const { list, binary, wasInstalled } = await uninstallDelegate(settings, deps);
    const { removed, kept } = await deps.removeIdleNetworks(deps.signal);
    const own = kept.filter(({ claimedBy }) => claimedBy === undefined);
    const next =
      own.length === 0
        ? "restart the agent, and the container runtime with its former conf_dir"
        : "restart the container runtime with its former conf_dir, but not yet the agent";
    const changes = wasInstalled || removed.length > 0 || kept.length > 0;
    const what = wasInstalled
      ? `${list} and ${binary} are removed`
      : `nothing was installed: there is neither ${list} nor ${binary}`;
    const text = `${what}${changes ? `; ${next}` : ""}\n`;
    const lines = removed.map((name) => `the built-in network ${name} is removed, with its bridge and its rules\n`);
    const remedy = own.length === 0 ? "" : KEPT_NETWORKS_REMEDY;
    return {
      text: [text, ...lines, ...kept.map(keptNetworkLine), remedy].join(""),
      json: { list, binary, wasInstalled, removedNetworks: removed, keptNetworks: kept },
      isGood: true,
    };
  },
};

const LOOPBACK_LINE =
  "the container runtime also needs its plugin loopback in its bin_dir, which berth doctor checks\n";

/** Why a network is kept. The attachments have no entry in the cache, or uninstall would have been refused. */
function keptNetworkLine({ name, claimedBy, attachments }: KeptNetwork): string {
  if (claimedBy !== undefined)
    return `the built-in network ${name} is kept: it belongs to the cache ${claimedBy}; berth cni uninstall --cache-dir ${claimedBy} removes it\n`;
  const shown = attachments.map(({ containerId, ifName }) => `${ifName} of ${containerId}`).join(", ");
  return `the built-in network ${name} is kept, with its bridge and its rules: it has the attachments ${shown}\n`;
}

/** Without the list, an agent that starts owns no network, and deletes no attachment. */
const KEPT_NETWORKS_REMEDY = [
  "the agent that owns a kept network deletes its attachments when their sandboxes are gone and the container runtime has been restarted;",
  "then uninstall again, and restart the agent after that. The next boot removes the attachments too\n",
].join(" ");

/** The runtime may keep its cache elsewhere: then plugins would release the addresses of containers that run. */
function emptyCache(network: string, cacheDir: string): CniError {
  const message = `${cacheDir} has no attachment of ${network}, so its plugins would release all that they hold; --all does so`;
  return new CniError(cniCodes.invalidEnvironment, message);
}

async function networkOf(settings: CniSettings, deps: CniVerbDeps): Promise<NetworkConf> {
  const { confDir, network } = settings;
  try {
    return await loadNetwork(deps.files, confDir, network);
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    throw await withNetworksOfAgents(error, settings, deps);
  }
}

async function findNetwork(
  { confDir, network }: CniSettings,
  { files }: CniVerbDeps,
): Promise<NetworkConf | undefined> {
  const found = await readConfDir(files, confDir);
  return found.flatMap((entry) => ("conf" in entry ? [entry.conf] : [])).find(({ name }) => name === network);
}

const attachmentIn = ({ containerId, netns, ifName, args, capabilityArgs }: CniSettings): Attachment => ({
  containerId,
  netns,
  ifName,
  args,
  capabilityArgs,
});

/** `eth0 of web in the network pods` */
const attachmentText = ({ ifName, containerId }: CniSettings, network: string) =>
  `${ifName} of ${containerId} in the network ${network}`;

/** What gc has done, up to the number of the attachments in use: `2 attachments deleted, whose network namespaces are gone;`. */
function deletionText(count: number, hasKilledAdds: boolean): string {
  if (count === 0) return "no attachment deleted,";
  const [nouns, are] = count === 1 ? ["", "is"] : ["s", "are"];
  return `${count} attachment${nouns} deleted, whose network namespace${nouns} ${are} gone${hasKilledAdds ? " or whose ADD was killed" : ""};`;
}

/** How many attachments gc keeps because it does not know their namespaces, and how to delete one of them. */
function unknownText(count: number, network: string, call: SuggestedCall): string {
  if (count === 0) return "";
  const [verb, their] = count === 1 ? ["counts", "its"] : ["count", "their"];
  const list = suggestedCniCommand(["list", network], call);
  const del = suggestedDeletion(network, call);
  return `${count} of them ${verb} as in use because the cache does not name ${their} network namespace; ${list} shows which, and ${del} deletes one\n`;
}

async function stateOf(
  plugin: string,
  conf: NetworkConf,
  { binaries, inProcess, signal }: CniVerbDeps,
): Promise<PluginState> {
  if (inProcess.has(plugin)) return { plugin, binary: "built in", versions: cniVersions, problem: undefined };
  let binary: string | undefined;
  try {
    binary = await binaries.find(plugin);
    const versions = await binaries.versions(plugin, signal);
    const speaks = versions.includes(conf.cniVersion);
    return { plugin, binary, versions, problem: speaks ? undefined : `does not speak ${conf.cniVersion}` };
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    const problem = describeCniError(error).replace(`${plugin}: `, "");
    return { plugin, binary, versions: [], problem };
  }
}

/** What the plugins answer to STATUS. A network whose version has none counts as ready. */
async function statusOf(
  conf: NetworkConf,
  { cni, signal }: CniVerbDeps,
): Promise<{ readonly state: string; readonly isReady: boolean }> {
  try {
    const outcome = await cni.status(conf, signal);
    const unasked = `its plugins can be used; cniVersion ${conf.cniVersion} has no STATUS, so they were not asked whether they can serve add`;
    return { state: outcome === "ready" ? "ready" : unasked, isReady: true };
  } catch (error) {
    if (!(error instanceof CniError)) throw error;
    return { state: `not ready: ${describeCniError(error)}`, isReady: false };
  }
}
