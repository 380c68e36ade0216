import { readdir, readFile } from "node:fs/promises";
import { basename } from "node:path";
import { execa } from "execa";
import { until } from "../poll-until.ts";
import { type BedRecord, listRecords } from "./bed-record.ts";
import { findContainers, findLeftovers } from "./bed-resources.ts";
import { listProcesses } from "./processes.ts";

/**
 * Everything on this machine that a pod leaves if nobody cleans, as lines: mounts, links, iptables rules, network
 * namespaces, containerd's processes and shim sockets, cgroups of containers, cached CNI results. Left out is what
 * belongs to a bed that is on record: a neighbour at work is no trace, and what outlives its record is.
 */
export async function traces(): Promise<readonly string[]> {
  const all = await everything();
  const owned = await Promise.all((await listRecords()).map(ownerOf));
  return all.filter((line) => !owned.some((isOwned) => isOwned(line)));
}

/** The traces that were not there `before`, after giving neighbours and the kernel some seconds to finish. */
export async function newTraces(before: readonly string[]): Promise<readonly string[]> {
  const known = new Set(before);
  let added: readonly string[] = [];
  const look = async () => {
    added = (await traces()).filter((line) => !known.has(line));
    return added.length === 0;
  };
  return await until("no new trace", 10_000, look).then(
    () => [],
    () => added,
  );
}

async function everything(): Promise<readonly string[]> {
  const list = (folder: string) => readdir(folder).catch((): readonly string[] => []);
  const [mountinfo, links, rules, processes, ...folders] = await Promise.all([
    readFile("/proc/self/mountinfo", "utf8"),
    execa("ip", ["-json", "link", "show"]),
    execa("iptables-save"),
    listProcesses(),
    list("/run/netns"),
    list("/run/containerd/s"),
    list("/var/lib/cni/results"),
    list("/var/log/containers"),
    list("/sys/fs/cgroup/memory/k8s.io").then(containerIds),
    list("/sys/fs/cgroup/k8s.io").then(containerIds),
  ]);
  const ifnames = (JSON.parse(links.stdout) as readonly { readonly ifname: string }[]).map(({ ifname }) => ifname);
  const containers = processes.filter(({ argv }) =>
    /containerd|catatonit|httpd|berth$|etcd$|kube-|kubelet$/.test(argv[0] ?? ""),
  );
  return [
    ...mountinfo.split("\n").map((line) => `mount ${line.split(" ")[4]}`),
    ...ifnames.map((name) => `link ${name}`),
    ...rules.stdout.split("\n").filter((line) => line.startsWith("-A")),
    ...containers.map(({ pid, argv }) => `process ${pid} ${argv.join(" ")}`),
    ...folders.flat().map((name) => `file ${name}`),
  ];
}

/** Whether a line is a bed's. */
async function ownerOf(bed: BedRecord): Promise<(line: string) => boolean> {
  const ids = await findContainers(bed);
  const { processes, links, rules, files } = await findLeftovers(bed, ids);
  const lines = new Set([...links.map((name) => `link ${name}`), ...rules]);
  const words = [...ids, ...files.map((file) => basename(file))];
  return (line) =>
    lines.has(line) ||
    line.includes(`${bed.stateDir}/`) ||
    processes.some((pid) => line.startsWith(`process ${pid} `)) ||
    (line.startsWith("file ") && words.some((word) => line.includes(word)));
}

/** A cgroup's folder also holds the files of its controllers. */
const containerIds = (names: readonly string[]) => names.filter((name) => /^[0-9a-f]{64}$/.test(name));
