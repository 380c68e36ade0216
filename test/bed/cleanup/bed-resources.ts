import { createHash } from "node:crypto";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { execa } from "execa";
import { openNodeNetwork } from "../../../cni/builtin/node-network.ts";
import { recordedNetworks } from "../../../cni/builtin/recorded-attachments.ts";
import type { BuiltinRemovalOptions } from "../../../cni/builtin/remove-network.ts";
import { masqueradeChain, TABLE } from "../../../cni/builtin/ruleset.ts";
import { DELEGATE_NETWORK } from "../../../cni/delegate-network.ts";
import { createNetlink } from "../../../host/netlink/netlink.ts";
import { hasChain } from "../../../host/netlink/nftables.ts";
import { ifAbsent } from "../if-absent.ts";
import { type BedRecord, bedPaths } from "./bed-record.ts";
import { listProcesses, ownProcessGroup, type RunningProcess, withDescendants } from "./processes.ts";

/** The resources of one test bed in the kernel and outside its state folder. */
export interface BedResources {
  readonly processes: readonly number[];
  readonly mounts: readonly string[];
  readonly links: readonly string[];
  readonly rules: readonly string[];
  /** The names of built-in networks, which have rules of nftables, a record in /run, a bridge, and links of pods. */
  readonly networks: readonly string[];
  readonly cgroups: readonly string[];
  readonly files: readonly string[];
}

/** The fixed folder where libcni caches the results of ADD. */
const cniResultsDir = "/var/lib/cni/results";

/** Where the built-in networks of this machine are: netlink, and the fixed folder of their records. */
export const builtinNetworkOptions = () => ({ netlink: createNetlink(), folder: "/run/berth/network" });

/** The fixed folder where the reference kubelet listens for device plugins. */
export const devicePluginsDir = "/var/lib/kubelet/device-plugins";

/**
 * Finds all resources of `bed` and no others: by the paths of its state folder, the name of its network, and the ids of
 * its containers. `ids` are ids from an earlier call, since a container's folders may disappear before its other
 * resources.
 */
export async function findBedResources(bed: BedRecord, ids: Iterable<string> = []): Promise<BedResources> {
  const containers = [...new Set([...ids, ...(await findContainers(bed))])];
  const [processes, mounts, links, rules, networks, cgroups, ...files] = await Promise.all([
    findProcesses(bed),
    findMounts(bed),
    findLinks(bed),
    findRules(bed),
    hasNetwork(builtinNetworkOptions(), bed.network) ? [bed.network] : [],
    findCgroups(bed, containers),
    findShimSockets(bed, containers),
    findCniResults(bed, containers),
    findLogLinks(bed),
    findDevicePluginSocket(bed),
    findAgentLocks(bed, agentLocksDir),
  ]);
  return { processes, mounts, links, rules, networks, cgroups, files: files.flat() };
}

/** Whether a built-in network has a record or rules on this machine. Throws `NetlinkError` where the kernel has no nftables. */
export function hasNetwork({ netlink, folder, nodeNamespace }: BuiltinRemovalOptions, network: string): boolean {
  if (recordedNetworks(folder).includes(network)) return true;
  const node = openNodeNetwork(netlink, nodeNamespace);
  try {
    return hasChain(node.netfilter, TABLE, masqueradeChain(network));
  } finally {
    node.close();
  }
}

/** The ids of the bed's sandboxes and containers, collected from folders, mounts, shims and containerd's log. */
export async function findContainers(bed: BedRecord): Promise<readonly string[]> {
  const { root, state, log } = bedPaths(bed.stateDir);
  const cri = "io.containerd.grpc.v1.cri";
  const folders = [join(root, cri, "sandboxes"), join(root, cri, "containers"), tasksFolder(state)];
  const [names, mounts, processes, logText] = await Promise.all([
    Promise.all(folders.map((folder) => readdir(folder).catch(ifAbsent([])))),
    findMounts(bed),
    listProcesses(),
    // If containerd died while it created a container, its log may be the only place with the id.
    readFile(log, "utf8").catch(ifAbsent("")),
  ]);
  const shims = processes.filter(isShimOf(bed)).flatMap(({ argv }) => argv);
  const candidates = [
    ...(logText.match(/\b[0-9a-f]{64}\b/g) ?? []),
    ...names.flat(),
    ...mounts.flatMap((mount) => mount.split("/")),
    ...shims,
  ];
  return [...new Set(candidates.filter((candidate) => /^[0-9a-f]{64}$/.test(candidate)))];
}

/** The singular and plural of each kind. */
const kindNames: Readonly<Record<keyof BedResources, readonly [one: string, many: string]>> = {
  processes: ["process", "processes"],
  mounts: ["mount", "mounts"],
  links: ["interface", "interfaces"],
  rules: ["rule", "rules"],
  networks: ["built-in network", "built-in networks"],
  cgroups: ["cgroup", "cgroups"],
  files: ["file", "files"],
};

/** The number of resources of each kind that is left, such as `1 mount`. */
export function countBedResources(resources: BedResources): readonly string[] {
  return presentKinds(resources).map((kind) => formatCount(resources, kind));
}

/** One line for each kind that is left: the number, and the first of them. */
export function describeBedResources(resources: BedResources): readonly string[] {
  return presentKinds(resources).map((kind) => `${formatCount(resources, kind)}: ${listFirst(resources[kind])}`);
}

const presentKinds = (resources: BedResources) =>
  (Object.keys(kindNames) as (keyof BedResources)[]).filter((kind) => resources[kind].length > 0);

const formatCount = (resources: BedResources, kind: keyof BedResources) => {
  const { length } = resources[kind];
  return `${length} ${kindNames[kind][length === 1 ? 0 : 1]}`;
};

const MAX_NAMED = 3;
const MAX_NAME_LENGTH = 48;

function listFirst(items: readonly (string | number)[]): string {
  const named = items.slice(0, MAX_NAMED).map((thing) => shorten(String(thing)));
  const more = items.length - named.length;
  return named.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Shortens ids to their first 12 digits, and long texts to their beginning and end. */
function shorten(thing: string): string {
  const text = thing.replace(/([0-9a-f]{12})[0-9a-f]{52}/g, "$1");
  const half = Math.floor((MAX_NAME_LENGTH - 1) / 2);
  return text.length <= MAX_NAME_LENGTH ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
}

async function findProcesses(bed: BedRecord): Promise<readonly number[]> {
  const paths = bedPaths(bed.stateDir);
  const ownArguments = [
    paths.config,
    paths.agentConfig,
    paths.registryConfig,
    `--data-dir=${paths.etcdData}`,
    `--cert-dir=${paths.controlPlaneCerts}`,
    `--config=${paths.kubeletConfig}`,
  ];
  const all = await listProcesses();
  const isShim = isShimOf(bed);
  const isOurs = (one: RunningProcess) => isShim(one) || ownArguments.some((word) => one.argv.includes(word));
  const family = withDescendants(
    all,
    all.filter(isOurs).map(({ pid }) => pid),
  );
  // A container whose shim was killed has no parent of ours, but its root is still one of our snapshots.
  const inside = await Promise.all(all.map(async ({ pid }) => ((await rootIsBelow(pid, paths.root)) ? [pid] : [])));
  return [...new Set([...family, ...inside.flat()])];
}

const isShimOf = (bed: BedRecord) => {
  const { socket } = bedPaths(bed.stateDir);
  return ({ argv }: RunningProcess) => basename(argv[0] ?? "").startsWith("containerd-shim") && argv.includes(socket);
};

async function rootIsBelow(pid: number, folder: string): Promise<boolean> {
  // The process may end meanwhile; a zombie's mounts are not readable.
  const mountinfo = await readFile(`/proc/${pid}/mountinfo`, "utf8").catch(() => "");
  const rootLine = mountinfo.split("\n").find((line) => line.split(" ")[4] === "/");
  return rootLine?.includes(`=${folder}/`) === true;
}

/** The mount points below the state folder, innermost first. */
async function findMounts(bed: BedRecord): Promise<readonly string[]> {
  const mountinfo = await readFile("/proc/self/mountinfo", "utf8");
  const points = mountinfo.split("\n").map((line) => unescapeMount(line.split(" ")[4] ?? ""));
  return points.filter((point) => point.startsWith(`${bed.stateDir}/`)).reverse();
}

/** The kernel writes space, tab, newline and backslash in mount points as octal. */
const unescapeMount = (point: string) =>
  point.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

/** The interfaces of the bed: those attached to its bridge, then the bridge. */
async function findLinks(bed: BedRecord): Promise<readonly string[]> {
  const { stdout } = await execa("ip", ["-json", "link", "show"], ownProcessGroup);
  const links = JSON.parse(stdout) as readonly { readonly ifname: string; readonly master?: string }[];
  const plugged = links.filter(({ master }) => master === bed.bridge);
  return [...plugged, ...links.filter(({ ifname }) => ifname === bed.bridge)].map(({ ifname }) => ifname);
}

/** The rules of the nat table that portmap wrote for this bed's network, as `iptables-save` prints them. */
async function findRules(bed: BedRecord): Promise<readonly string[]> {
  const { stdout } = await execa("iptables-save", ["-t", "nat"], ownProcessGroup);
  return rulesOfNetwork(stdout, bed.network);
}

/** Picks from the output of `iptables-save` the rules whose comment names the CNI network `network`. */
export function rulesOfNetwork(saved: string, network: string): readonly string[] {
  return saved.split("\n").filter((line) => line.startsWith("-A ") && line.includes(`name: \\"${network}\\"`));
}

const tasksFolder = (state: string) => join(state, "io.containerd.runtime.v2.task", "k8s.io");

/** The cgroup folders of these containers in all mounted hierarchies. */
async function findCgroups(bed: BedRecord, ids: readonly string[]): Promise<readonly string[]> {
  const tasks = tasksFolder(bedPaths(bed.stateDir).state);
  const specs = await Promise.all(
    ids.map((id) => readFile(join(tasks, id, "config.json"), "utf8").catch(ifAbsent(""))),
  );
  const paths = specs.map((spec, at) => /"cgroupsPath":\s*"([^"]*)"/.exec(spec)?.[1] ?? `/k8s.io/${ids[at]}`);
  const mountinfo = await readFile("/proc/self/mountinfo", "utf8");
  const hierarchies = mountinfo
    .split("\n")
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(" ")[4] ?? "");
  return await filterExisting(hierarchies.flatMap((hierarchy) => paths.map((path) => join(hierarchy, path))));
}

/**
 * The sockets of shims. They lie outside the state folder; containerd derives their names from its socket and the
 * sandbox id.
 */
async function findShimSockets(bed: BedRecord, ids: readonly string[]): Promise<readonly string[]> {
  const { socket } = bedPaths(bed.stateDir);
  const hash = (id: string) => createHash("sha256").update(`${socket}/k8s.io/${id}`).digest("hex");
  return await filterExisting(ids.map((id) => `/run/containerd/s/${hash(id)}`));
}

/**
 * Cached CNI results: those of the bed's network, and those of the loopback network and of Berth's delegate, whose names are
 * the same for every containerd.
 */
async function findCniResults(bed: BedRecord, ids: readonly string[]): Promise<readonly string[]> {
  const shared = new Set(ids.flatMap((id) => [`cni-loopback-${id}-lo`, `${DELEGATE_NETWORK}-${id}-eth0`]));
  const results = await readdir(cniResultsDir).catch(ifAbsent([]));
  const ownArguments = results.filter((name) => name.startsWith(`${bed.network}-`) || shared.has(name));
  return ownArguments.map((name) => join(cniResultsDir, name));
}

/** The agent's symlinks for log collectors that point into the state folder. */
async function findLogLinks(bed: BedRecord): Promise<readonly string[]> {
  const folder = "/var/log/containers";
  const links = (await readdir(folder).catch(ifAbsent([]))).map((name) => join(folder, name));
  // The folder may also contain files that are no links.
  const targets = await Promise.all(links.map((link) => readlink(link).catch(() => "")));
  return links.filter((_, at) => targets[at]?.startsWith(`${bed.stateDir}/`));
}

/**
 * The device plugin socket of the reference kubelet. Its path does not depend on the root directory, and the kubelet
 * does not remove it. It belongs to this bed if the bed had a kubelet and no other kubelet runs.
 */
async function findDevicePluginSocket(bed: BedRecord): Promise<readonly string[]> {
  const { kubeletConfig } = bedPaths(bed.stateDir);
  if ((await filterExisting([kubeletConfig])).length === 0) return [];
  const kubelets = (await listProcesses()).filter(({ argv }) => basename(argv[0] ?? "") === "kubelet");
  if (kubelets.some(({ argv }) => !argv.includes(`--config=${kubeletConfig}`))) return [];
  return await filterExisting([join(devicePluginsDir, "kubelet.sock")]);
}

/** The fixed folder where an agent locks its container runtime. */
const agentLocksDir = "/run/berth";

/**
 * The locks of the bed's agents: an agent that was killed leaves its lock. Its text ends with the agent's root directory.
 *
 * @internal
 */
export async function findAgentLocks({ stateDir }: Pick<BedRecord, "stateDir">, folder: string) {
  const names = await readdir(folder).catch(ifAbsent([]));
  const locks = names.filter((name) => name.endsWith(".lock")).map((name) => join(folder, name));
  // An agent that ends removes its lock.
  const texts = await Promise.all(locks.map((lock) => readFile(lock, "utf8").catch(ifAbsent(""))));
  return locks.filter((_, at) => texts[at]?.includes(`, root directory ${stateDir}/`));
}

async function filterExisting(paths: readonly string[]): Promise<readonly string[]> {
  const exists = (path: string) =>
    lstat(path).then(
      () => true,
      () => false,
    );
  const found = await Promise.all(paths.map(exists));
  return paths.filter((_, at) => found[at]);
}
