import { createHash } from "node:crypto";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { execa } from "execa";
import { type BedRecord, bedPaths } from "./bed-record.ts";
import { apart, listProcesses, type RunningProcess, withDescendants } from "./processes.ts";

/** What one bed has in the kernel and outside its state folder at this moment. */
export interface Leftovers {
  readonly processes: readonly number[];
  readonly mounts: readonly string[];
  readonly links: readonly string[];
  readonly rules: readonly string[];
  readonly cgroups: readonly string[];
  readonly files: readonly string[];
}

/** Where libcni keeps the results of its ADDs, whatever else is configured. */
const cniResults = "/var/lib/cni/results";

/** Where the upstream kubelet listens for device plugins, whatever else is configured. */
export const devicePlugins = "/var/lib/kubelet/device-plugins";

/**
 * Finds all of `bed`, and nothing of anybody else: by the paths of its state folder, the name of its network, and the
 * ids of its containers. `ids` are those known from an earlier look, since a container's folders may go before it does.
 */
export async function findLeftovers(bed: BedRecord, ids: Iterable<string> = []): Promise<Leftovers> {
  const containers = [...new Set([...ids, ...(await findContainers(bed))])];
  const [processes, mounts, links, rules, cgroups, ...files] = await Promise.all([
    findProcesses(bed),
    findMounts(bed),
    findLinks(bed),
    findRules(bed),
    findCgroups(bed, containers),
    findShimSockets(bed, containers),
    findCniResults(bed, containers),
    findLogLinks(bed),
    findDevicePluginSocket(bed),
  ]);
  return { processes, mounts, links, rules, cgroups, files: files.flat() };
}

/** The ids of the bed's sandboxes and containers, from every place that tells one. */
export async function findContainers(bed: BedRecord): Promise<readonly string[]> {
  const { root, state, log } = bedPaths(bed.stateDir);
  const cri = "io.containerd.grpc.v1.cri";
  const folders = [join(root, cri, "sandboxes"), join(root, cri, "containers"), tasksFolder(state)];
  const [names, mounts, processes, told] = await Promise.all([
    Promise.all(folders.map((folder) => readdir(folder).catch(() => []))),
    findMounts(bed),
    listProcesses(),
    // Of a container whose making was cut short by the death of containerd nothing else may tell.
    readFile(log, "utf8").catch(() => ""),
  ]);
  const shims = processes.filter(isShimOf(bed)).flatMap(({ argv }) => argv);
  const words = [
    ...(told.match(/\b[0-9a-f]{64}\b/g) ?? []),
    ...names.flat(),
    ...mounts.flatMap((mount) => mount.split("/")),
    ...shims,
  ];
  return [...new Set(words.filter((word) => /^[0-9a-f]{64}$/.test(word)))];
}

/** One and many of each kind, as they are called. */
const words: Readonly<Record<keyof Leftovers, readonly [one: string, many: string]>> = {
  processes: ["process", "processes"],
  mounts: ["mount", "mounts"],
  links: ["interface", "interfaces"],
  rules: ["rule", "rules"],
  cgroups: ["cgroup", "cgroups"],
  files: ["file", "files"],
};

/** How much is left of each kind, such as `1 mount`; none if nothing is. */
export function countLeftovers(left: Leftovers): readonly string[] {
  return present(left).map((kind) => countOf(left, kind));
}

/** One line for each kind of thing that is left: how many, and the first of them. None if nothing is left. */
export function describeLeftovers(left: Leftovers): readonly string[] {
  return present(left).map((kind) => `${countOf(left, kind)}: ${some(left[kind])}`);
}

const present = (left: Leftovers) =>
  (Object.keys(words) as (keyof Leftovers)[]).filter((kind) => left[kind].length > 0);

const countOf = (left: Leftovers, kind: keyof Leftovers) => {
  const { length } = left[kind];
  return `${length} ${words[kind][length === 1 ? 0 : 1]}`;
};

const MOST_NAMED = 3;
const LONGEST_NAME = 48;

function some(things: readonly (string | number)[]): string {
  const named = things.slice(0, MOST_NAMED).map((thing) => shorten(String(thing)));
  const more = things.length - named.length;
  return named.join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Ids say enough by their first digits, paths by their beginning and their end. */
function shorten(thing: string): string {
  const text = thing.replace(/([0-9a-f]{12})[0-9a-f]{52}/g, "$1");
  const half = Math.floor((LONGEST_NAME - 1) / 2);
  return text.length <= LONGEST_NAME ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
}

async function findProcesses(bed: BedRecord): Promise<readonly number[]> {
  const paths = bedPaths(bed.stateDir);
  const ours = [
    paths.config,
    paths.agentConfig,
    paths.registryConfig,
    `--data-dir=${paths.etcdData}`,
    `--cert-dir=${paths.controlPlaneCerts}`,
    `--config=${paths.kubeletConfig}`,
  ];
  const all = await listProcesses();
  const isShim = isShimOf(bed);
  const isOurs = (one: RunningProcess) => isShim(one) || ours.some((word) => one.argv.includes(word));
  const family = withDescendants(
    all,
    all.filter(isOurs).map(({ pid }) => pid),
  );
  // A container whose shim was killed is nobody's child, but its root is still a snapshot of ours.
  const inside = await Promise.all(all.map(async ({ pid }) => ((await rootIsBelow(pid, paths.root)) ? [pid] : [])));
  return [...new Set([...family, ...inside.flat()])];
}

const isShimOf = (bed: BedRecord) => {
  const { socket } = bedPaths(bed.stateDir);
  return ({ argv }: RunningProcess) => basename(argv[0] ?? "").startsWith("containerd-shim") && argv.includes(socket);
};

async function rootIsBelow(pid: number, folder: string): Promise<boolean> {
  const mountinfo = await readFile(`/proc/${pid}/mountinfo`, "utf8").catch(() => "");
  const rootLine = mountinfo.split("\n").find((line) => line.split(" ")[4] === "/");
  return rootLine?.includes(`=${folder}/`) === true;
}

/** Mount points below the state folder, the innermost first. */
async function findMounts(bed: BedRecord): Promise<readonly string[]> {
  const mountinfo = await readFile("/proc/self/mountinfo", "utf8");
  const points = mountinfo.split("\n").map((line) => unescapeMount(line.split(" ")[4] ?? ""));
  return points.filter((point) => point.startsWith(`${bed.stateDir}/`)).reverse();
}

/** The kernel writes space, tab, newline and backslash in mount points as octal. */
const unescapeMount = (point: string) =>
  point.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));

/** The bridge, after everything that is plugged into it. */
async function findLinks(bed: BedRecord): Promise<readonly string[]> {
  const { stdout } = await execa("ip", ["-json", "link", "show"], apart);
  const links = JSON.parse(stdout) as readonly { readonly ifname: string; readonly master?: string }[];
  const plugged = links.filter(({ master }) => master === bed.bridge);
  return [...plugged, ...links.filter(({ ifname }) => ifname === bed.bridge)].map(({ ifname }) => ifname);
}

/** The rules of the nat table that portmap wrote for this bed's network, as `iptables-save` prints them. */
async function findRules(bed: BedRecord): Promise<readonly string[]> {
  const { stdout } = await execa("iptables-save", ["-t", "nat"], apart);
  return rulesOfNetwork(stdout, bed.network);
}

/** Picks from the output of `iptables-save` the rules whose comment names the CNI network `network`. */
export function rulesOfNetwork(saved: string, network: string): readonly string[] {
  return saved.split("\n").filter((line) => line.startsWith("-A ") && line.includes(`name: \\"${network}\\"`));
}

const tasksFolder = (state: string) => join(state, "io.containerd.runtime.v2.task", "k8s.io");

/** The cgroup folders of these containers, in whatever hierarchies are mounted. */
async function findCgroups(bed: BedRecord, ids: readonly string[]): Promise<readonly string[]> {
  const tasks = tasksFolder(bedPaths(bed.stateDir).state);
  const specs = await Promise.all(ids.map((id) => readFile(join(tasks, id, "config.json"), "utf8").catch(() => "")));
  const paths = specs.map((spec, at) => /"cgroupsPath":\s*"([^"]*)"/.exec(spec)?.[1] ?? `/k8s.io/${ids[at]}`);
  const mountinfo = await readFile("/proc/self/mountinfo", "utf8");
  const hierarchies = mountinfo
    .split("\n")
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(" ")[4] ?? "");
  return await existing(hierarchies.flatMap((hierarchy) => paths.map((path) => join(hierarchy, path))));
}

/** A shim listens outside the state folder, under a name that follows from containerd's socket and the sandbox. */
async function findShimSockets(bed: BedRecord, ids: readonly string[]): Promise<readonly string[]> {
  const { socket } = bedPaths(bed.stateDir);
  const hash = (id: string) => createHash("sha256").update(`${socket}/k8s.io/${id}`).digest("hex");
  return await existing(ids.map((id) => `/run/containerd/s/${hash(id)}`));
}

/** containerd adds the loopback to each sandbox as a network of its own, the same for every containerd. */
async function findCniResults(bed: BedRecord, ids: readonly string[]): Promise<readonly string[]> {
  const loopbacks = new Set(ids.map((id) => `cni-loopback-${id}-lo`));
  const results = await readdir(cniResults).catch(() => []);
  const ours = results.filter((name) => name.startsWith(`${bed.network}-`) || loopbacks.has(name));
  return ours.map((name) => join(cniResults, name));
}

/** The links that an agent makes for log collectors, where they point into the state folder. */
async function findLogLinks(bed: BedRecord): Promise<readonly string[]> {
  const folder = "/var/log/containers";
  const links = (await readdir(folder).catch(() => [])).map((name) => join(folder, name));
  const targets = await Promise.all(links.map((link) => readlink(link).catch(() => "")));
  return links.filter((_, at) => targets[at]?.startsWith(`${bed.stateDir}/`));
}

/**
 * The upstream kubelet listens for device plugins at one place of the machine, whatever its root directory is, and leaves
 * its socket there. It is a bed's own if the bed has had a kubelet and no other one runs.
 */
async function findDevicePluginSocket(bed: BedRecord): Promise<readonly string[]> {
  const { kubeletConfig } = bedPaths(bed.stateDir);
  if ((await existing([kubeletConfig])).length === 0) return [];
  const kubelets = (await listProcesses()).filter(({ argv }) => basename(argv[0] ?? "") === "kubelet");
  if (kubelets.some(({ argv }) => !argv.includes(`--config=${kubeletConfig}`))) return [];
  return await existing([join(devicePlugins, "kubelet.sock")]);
}

async function existing(paths: readonly string[]): Promise<readonly string[]> {
  const isThere = (path: string) =>
    lstat(path).then(
      () => true,
      () => false,
    );
  const found = await Promise.all(paths.map(isThere));
  return paths.filter((_, at) => found[at]);
}
