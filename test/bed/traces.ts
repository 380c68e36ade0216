import { readdir, readFile } from "node:fs/promises";
import { execa } from "execa";
import { listProcesses } from "./processes.ts";

/**
 * Everything on this machine that a pod leaves if nobody cleans, as sorted lines: mounts, links, iptables rules,
 * network namespaces, containerd's processes and shim sockets, cgroups of containers, cached CNI results. Two looks
 * around a test that cleans up are equal.
 */
export async function traces(): Promise<readonly string[]> {
  const list = (folder: string) => readdir(folder).catch(() => [] as readonly string[]);
  const [mountinfo, links, rules, processes, ...folders] = await Promise.all([
    readFile("/proc/self/mountinfo", "utf8"),
    execa("ip", ["-json", "link", "show"]),
    execa("iptables-save"),
    listProcesses(),
    list("/run/netns"),
    list("/run/containerd/s"),
    list("/var/lib/cni/results"),
    list("/run/berth-bed"),
    list("/sys/fs/cgroup/memory/k8s.io").then(containerIds),
    list("/sys/fs/cgroup/k8s.io").then(containerIds),
  ]);
  const ifnames = (JSON.parse(links.stdout) as readonly { readonly ifname: string }[]).map(({ ifname }) => ifname);
  const containers = processes.filter(({ argv }) => /containerd|catatonit|httpd/.test(argv[0] ?? ""));
  return [
    ...mountinfo.split("\n").map((line) => `mount ${line.split(" ")[4]}`),
    ...ifnames.map((name) => `link ${name}`),
    ...rules.stdout.split("\n").filter((line) => line.startsWith("-A")),
    ...containers.map(({ pid, argv }) => `process ${pid} ${argv.join(" ")}`),
    ...folders.flat().map((name) => `file ${name}`),
  ].toSorted();
}

/** A cgroup's folder also holds the files of its controllers. */
const containerIds = (names: readonly string[]) => names.filter((name) => /^[0-9a-f]{64}$/.test(name));
