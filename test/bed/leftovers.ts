import { readdir, readFile, readlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { execa } from "execa";
import { listProcesses, type RunningProcess, withDescendants } from "./processes.ts";
import { type BedRecord, bedPaths } from "./record.ts";

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

/** Finds all of `bed`, and nothing of anybody else: by the paths of its state folder and the name of its network. */
export async function findLeftovers(bed: BedRecord): Promise<Leftovers> {
  const [processes, mounts, links, rules, bundles, results, logLinks] = await Promise.all([
    findProcesses(bed),
    findMounts(bed),
    findLinks(bed),
    findRules(bed),
    readBundles(bed),
    readdir(cniResults).catch(() => []),
    findLogLinks(bed),
  ]);
  const shims = await existing(bundles.flatMap(({ shimSocket }) => (shimSocket === undefined ? [] : [shimSocket])));
  // containerd adds the loopback to each sandbox as a network of its own, the same for every containerd.
  const names = [bed.network, ...bundles.map(({ id }) => `cni-loopback-${id}`)];
  const cached = results.filter((file) => names.some((name) => file.startsWith(`${name}-`)));
  const cgroups = await findCgroups(bundles.map(({ cgroup }) => cgroup));
  const files = [...shims, ...cached.map((file) => join(cniResults, file)), ...logLinks];
  return { processes, mounts, links, rules, cgroups, files };
}

/** One sentence for each kind of thing that is left; none if nothing is. */
export function describeLeftovers(left: Leftovers): readonly string[] {
  return Object.entries(left)
    .filter(([, things]) => things.length > 0)
    .map(([kind, things]) => `${things.length} ${kind}: ${things.slice(0, 5).join(", ")}`);
}

async function findProcesses(bed: BedRecord): Promise<readonly number[]> {
  const { socket, config, agentConfig, registryConfig, root } = bedPaths(bed.stateDir);
  const all = await listProcesses();
  const isOurs = ({ argv }: RunningProcess) =>
    [config, agentConfig, registryConfig].some((path) => argv.includes(path)) ||
    (basename(argv[0] ?? "").startsWith("containerd-shim") && argv.includes(socket));
  const family = withDescendants(
    all,
    all.filter(isOurs).map(({ pid }) => pid),
  );
  // A container whose shim was killed is nobody's child, but its root is still a snapshot of ours.
  const inside = await Promise.all(all.map(async ({ pid }) => ((await rootIsBelow(pid, root)) ? [pid] : [])));
  return [...new Set([...family, ...inside.flat()])];
}

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
  const { stdout } = await execa("ip", ["-json", "link", "show"]);
  const links = JSON.parse(stdout) as readonly { readonly ifname: string; readonly master?: string }[];
  const plugged = links.filter(({ master }) => master === bed.bridge);
  return [...plugged, ...links.filter(({ ifname }) => ifname === bed.bridge)].map(({ ifname }) => ifname);
}

/** The rules of the nat table that portmap wrote for this bed's network, as `iptables-save` prints them. */
async function findRules(bed: BedRecord): Promise<readonly string[]> {
  const { stdout } = await execa("iptables-save", ["-t", "nat"]);
  return rulesOfNetwork(stdout, bed.network);
}

/** Picks from the output of `iptables-save` the rules whose comment names the CNI network `network`. */
export function rulesOfNetwork(saved: string, network: string): readonly string[] {
  return saved.split("\n").filter((line) => line.startsWith("-A ") && line.includes(`name: \\"${network}\\"`));
}

interface Bundle {
  readonly id: string;
  readonly shimSocket: string | undefined;
  readonly cgroup: string;
}

/** What containerd's task folders tell: a sandbox or container each. */
async function readBundles(bed: BedRecord): Promise<readonly Bundle[]> {
  const tasks = join(bedPaths(bed.stateDir).state, "io.containerd.runtime.v2.task", "k8s.io");
  const ids = await readdir(tasks).catch(() => []);
  const text = (id: string, file: string) => readFile(join(tasks, id, file), "utf8").catch(() => "");
  return await Promise.all(
    ids.map(async (id) => {
      const [spec, address, bootstrap] = await Promise.all([
        text(id, "config.json"),
        text(id, "address"),
        text(id, "bootstrap.json"),
      ]);
      const cgroup = /"cgroupsPath":\s*"([^"]*)"/.exec(spec)?.[1] ?? `/k8s.io/${id}`;
      return { id, shimSocket: /unix:\/\/([^"\s]+)/.exec(address || bootstrap)?.[1], cgroup };
    }),
  );
}

/** The cgroup folders that exist for `paths`, in whatever hierarchies are mounted; the common parent last. */
async function findCgroups(paths: readonly string[]): Promise<readonly string[]> {
  const mountinfo = await readFile("/proc/self/mountinfo", "utf8");
  const hierarchies = mountinfo
    .split("\n")
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(" ")[4] ?? "");
  return await existing(hierarchies.flatMap((hierarchy) => paths.map((path) => join(hierarchy, path))));
}

/** The links that an agent makes for log collectors, where they point into the state folder. */
async function findLogLinks(bed: BedRecord): Promise<readonly string[]> {
  const folder = "/var/log/containers";
  const links = (await readdir(folder).catch(() => [])).map((name) => join(folder, name));
  const targets = await Promise.all(links.map((link) => readlink(link).catch(() => "")));
  return links.filter((_, at) => targets[at]?.startsWith(`${bed.stateDir}/`));
}

async function existing(paths: readonly string[]): Promise<readonly string[]> {
  const found = await Promise.all(paths.map(async (path) => ((await isThere(path)) ? [path] : [])));
  return found.flat();
}

async function isThere(path: string): Promise<boolean> {
  const names: readonly string[] = await readdir(dirname(path)).catch(() => []);
  return names.includes(basename(path));
}
