import { readdir, readFile } from "node:fs/promises";
import { basename } from "node:path";
import { execa } from "execa";
import { isMasqueradeChain, masqueradeChain, TABLE } from "../../../cni/builtin/ruleset.ts";
import { NETLINK_NETFILTER } from "../../../host/netlink/netlink.ts";
import { listChains } from "../../../host/netlink/nftables.ts";
import { ifAbsent } from "../if-absent.ts";
import { pollUntil } from "../poll-until.ts";
import { type BedRecord, listRecords } from "./bed-record.ts";
import { builtinNetworkOptions, findBedResources, findContainers } from "./bed-resources.ts";
import { listProcesses } from "./processes.ts";

/**
 * Lists, as lines, all resources on this machine that pods leave without a clean-up: mounts, links, rules of
 * iptables, chains and records of built-in networks, network namespaces, containerd's processes and shim sockets,
 * cgroups of containers, cached CNI results. Resources of a recorded bed are not listed, since another test may be using
 * it; resources that outlive their record are leaks. While there is a bed, the rules and chains that name no network are
 * not listed either: the first pod makes those of portmap and of the built-in network for the pods of all beds.
 */
export async function listMachineResources(): Promise<readonly string[]> {
  const all = await listAll();
  const beds = await listRecords();
  const owned = await Promise.all(beds.map(createOwnershipTest));
  const isShared = (line: string) => beds.length > 0 && (isCommonPortmapRule(line) || isCommonChain(line));
  return all.filter((line) => !isShared(line) && !owned.some((isOwned) => isOwned(line)));
}

/**
 * The resources that are not in `before` and stay for ten seconds. Those of a pod that comes or goes in another bed may
 * be listed without their owner for a moment.
 */
export async function findLeakedResources(before: readonly string[]): Promise<readonly string[]> {
  const known = new Set(before);
  let staying: ReadonlySet<string> | undefined;
  const checkOnce = async () => {
    const added = (await listMachineResources()).filter((line) => !known.has(line));
    staying = new Set(added.filter((line) => staying?.has(line) ?? true));
    return staying.size === 0;
  };
  return await pollUntil("no new trace", 10_000, checkOnce).then(
    () => [],
    () => [...(staying ?? [])],
  );
}

async function listAll(): Promise<readonly string[]> {
  const list = (folder: string) => readdir(folder).catch(ifAbsent<readonly string[]>([]));
  const [mountinfo, links, rules, processes, networks, ...folders] = await Promise.all([
    readFile("/proc/self/mountinfo", "utf8"),
    execa("ip", ["-json", "link", "show"]),
    execa("iptables-save"),
    listProcesses(),
    list(builtinNetworkOptions().folder),
    list("/run/netns"),
    list("/run/containerd/s"),
    list("/var/lib/cni/results"),
    list("/var/log/containers"),
    list("/sys/fs/cgroup/memory/k8s.io").then(containerIds),
    list("/sys/fs/cgroup/k8s.io").then(containerIds),
  ]);
  const ifnames = (JSON.parse(links.stdout) as readonly { readonly ifname: string }[]).map(({ ifname }) => ifname);
  const programs = processes.filter(({ argv: [program = ""] }) => isOfPodOrBed(program));
  return [
    ...mountinfo.split("\n").map((line) => `mount ${line.split(" ")[4]}`),
    ...ifnames.map((name) => `link ${name}`),
    ...rules.stdout.split("\n").filter((line) => line.startsWith("-A")),
    ...builtinChains().map((chain) => `chain ${chain}`),
    ...networks.filter((name) => /^berth-[0-9a-f]{8}$/.test(name)).map((name) => `network ${name}`),
    ...programs.map(({ pid, argv }) => `process ${pid} ${argv.join(" ")}`),
    ...folders.flat().map((name) => `file ${name}`),
  ];
}

/** Returns a function that decides whether a line belongs to the bed. */
async function createOwnershipTest(bed: BedRecord): Promise<(line: string) => boolean> {
  const ids = await findContainers(bed);
  const { processes, links, rules, networks, files } = await findBedResources(bed, ids);
  const ofNetworks = networks.flatMap((name) => [`network ${name}`, `chain ${masqueradeChain(name)}`]);
  const lines = new Set([...links.map((name) => `link ${name}`), ...rules, ...ofNetworks]);
  const ownNames = [...ids, ...files.map((file) => basename(file))];
  return (line) =>
    lines.has(line) ||
    line.includes(`${bed.stateDir}/`) ||
    processes.some((pid) => line.startsWith(`process ${pid} `)) ||
    (line.startsWith("file ") && ownNames.some((ownName) => line.includes(ownName)));
}

/**
 * Whether a rule is one of those that portmap keeps for all pods with host ports: the jumps to its chains, and the rules
 * that mark packets.
 *
 * @internal
 */
export const isCommonPortmapRule = (line: string) =>
  /^-A (?!CNI-).* -j CNI-HOSTPORT-[A-Z]+$|^-A CNI-HOSTPORT-(MASQ|SETMARK) /.test(line);

/** The chains of the built-in network's table. */
function builtinChains(): readonly string[] {
  const socket = builtinNetworkOptions().netlink.openSocket(NETLINK_NETFILTER);
  try {
    const all = listChains(socket);
    return all.filter(({ family, table }) => family === "inet" && table === TABLE).map(({ chain }) => chain);
  } finally {
    socket.close();
  }
}

/** Whether a line is a chain that all built-in networks share. */
const isCommonChain = (line: string) => /^chain /.test(line) && !isMasqueradeChain(line.replace("chain ", ""));

/** Whether a process belongs to a pod or a bed, by its program. A test runner may name a test file in its title. */
const isOfPodOrBed = (program: string) =>
  /^(containerd(-shim-runc-v2)?|catatonit|httpd|berth|etcd|kube-[a-z-]+|kubelet)$/.test(
    basename(program.split(" ")[0] ?? ""),
  );

/** Picks the folders of containers: a cgroup's folder also holds the files of its controllers. */
const containerIds = (names: readonly string[]) => names.filter((name) => /^[0-9a-f]{64}$/.test(name));
