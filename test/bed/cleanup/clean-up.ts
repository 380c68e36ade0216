import { rm, rmdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { removeNetwork } from "../../../cni/builtin/remove-network.ts";
import { pollUntil } from "../poll-until.ts";
import { type BedRecord, bedPaths, deleteRecord, recordedAt } from "./bed-record.ts";
import {
  type BedResources,
  builtinNetworkOptions,
  describeBedResources,
  devicePluginsDir,
  findBedResources,
  findContainers,
  rulesOfNetwork,
} from "./bed-resources.ts";
import { ownProcessGroup } from "./processes.ts";
import { findDeadSockets } from "./shim-sockets.ts";

/**
 * Removes a test bed: kills its processes, unmounts, deletes links, rules, cgroups and files, and repeats until nothing
 * is left. The same code serves a regular end and a bed whose owner was killed, so that every test exercises it.
 * Returns the resources that it found at first. Throws with the remaining ones after 20 s.
 */
export async function cleanUp(bed: BedRecord): Promise<BedResources> {
  const ids = await findContainers(bed);
  const first = await findBedResources(bed, ids);
  let left = first;
  try {
    await pollUntil("an empty bed", 20_000, async () => {
      if (describeBedResources(left).length === 0) return true;
      await removeOnce(bed, left);
      left = await findBedResources(bed, ids);
      return false;
    });
  } catch (cause) {
    throw new Error(`cannot clean ${bed.stateDir}: ${describeBedResources(left).join("; ")}`, { cause });
  }
  await dropEmptyPortmapChains();
  const since = (await recordedAt(bed)) ?? Number.POSITIVE_INFINITY;
  for (const path of await findDeadSockets(since)) await rm(path, { force: true });
  const { home, cni, registryHosts, registryConfig, registryStore, ...more } = bedPaths(bed.stateDir);
  const { controlPlane, kubeletConfig, kubeletRoot } = more;
  const ours = [home, cni, registryHosts, registryConfig, registryStore, controlPlane, kubeletConfig, kubeletRoot];
  for (const path of ours) await rm(path, { recursive: true, force: true });
  await deleteRecord(bed);
  return first;
}

/**
 * Removes what a loss of power removes: the processes of a test bed, its mounts, links, rules and cgroups, and its files
 * below `/run`. The disk stays as it is: images, containers, CNI results and leases. Throws with the remaining ones
 * after 20 s.
 */
export async function powerOff(bed: BedRecord): Promise<void> {
  const ids = await findContainers(bed);
  const find = async () => {
    const { files, ...left } = await findBedResources(bed, ids);
    return { ...left, files: files.filter((file) => file.startsWith("/run/")) };
  };
  let left = await find();
  await pollUntil(`the end of ${bed.stateDir}`, 20_000, async () => {
    if (describeBedResources(left).length === 0) return true;
    await removeOnce(bed, left);
    left = await find();
    return false;
  });
  await rm(bedPaths(bed.stateDir).state, { recursive: true, force: true });
}

/** One pass. Each step may fail for a resource that is just going away: the next pass finds what really remains. */
async function removeOnce(bed: BedRecord, left: BedResources): Promise<void> {
  for (const cgroup of left.cgroups) await thaw(cgroup);
  for (const pid of left.processes) kill(pid);
  if (left.processes.length > 0) return;
  if (left.mounts.length > 0) await execa("umount", [...left.mounts], { ...ownProcessGroup, reject: false });
  for (const network of left.networks) await removeNetwork(builtinNetworkOptions(), network);
  for (const link of left.links) await execa("ip", ["link", "delete", link], { ...ownProcessGroup, reject: false });
  if (left.rules.length > 0) await removeRules(bed.network);
  for (const path of left.cgroups) {
    // The next pass finds a cgroup that still has a process.
    await rmdir(path).catch(() => undefined);
    // Removes the common parent with its last child. While a sibling exists the kernel refuses, as it should.
    await rmdir(dirname(path)).catch(() => undefined);
  }
  for (const file of left.files) {
    await rm(file, { force: true });
    if (dirname(file) !== devicePluginsDir) continue;
    // Both folders are removed only if they are empty: other files in them are not ours.
    for (const folder of [devicePluginsDir, dirname(devicePluginsDir)]) await rmdir(folder).catch(() => undefined);
  }
}

/**
 * Thaws a cgroup: runc freezes the one whose processes it kills, and a frozen process does not end. A runc that is killed
 * in between leaves it frozen.
 */
async function thaw(cgroup: string): Promise<void> {
  const [file, state] = cgroup.startsWith("/sys/fs/cgroup/freezer/")
    ? ["freezer.state", "THAWED"]
    : ["cgroup.freeze", "0"];
  // The other controllers of cgroup v1 have neither file, and the cgroup may be going away.
  await writeFile(join(cgroup, file), state, { flag: "r+" }).catch(() => undefined);
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process ended by itself in the meantime.
  }
}

async function removeRules(network: string): Promise<void> {
  await restore(ruleRemovalInput(await savedRules(), network));
}

async function savedRules(): Promise<string> {
  const { stdout } = await execa("iptables-save", ["-t", "nat"], ownProcessGroup);
  return stdout;
}

async function restore(input: string): Promise<void> {
  await execa("iptables-restore", ["--noflush", "--wait"], { ...ownProcessGroup, input, reject: false });
}

/**
 * Returns the input for `iptables-restore --noflush` that removes the rules of `network` and the chains that only they
 * use. `saved` is the output of `iptables-save -t nat`.
 */
export function ruleRemovalInput(saved: string, network: string): string {
  const rules = rulesOfNetwork(saved, network);
  const chains = new Set(rules.map((rule) => / -j (CNI-DN-\S+|CNI-[0-9a-f]{24})/.exec(rule)?.[1]).filter(Boolean));
  const own = rules.filter((rule) => !chains.has(rule.split(" ")[1]));
  return [
    "*nat",
    ...own.map((rule) => rule.replace(/^-A/, "-D")),
    ...[...chains].flatMap((chain) => [`-F ${chain}`, `-X ${chain}`]),
    "COMMIT",
    "",
  ].join("\n");
}

/**
 * portmap never removes its shared chains. Without a pod's rule they have no effect, and the plugin creates them again
 * when it needs them. iptables-restore refuses the whole transaction if a rule was added in between.
 */
async function dropEmptyPortmapChains(): Promise<void> {
  const removal = emptyChainRemovalInput(await savedRules());
  if (removal !== "") await restore(removal);
}

/**
 * Returns the input for `iptables-restore --noflush` that removes portmap's shared chains, or "" while a pod uses them.
 */
export function emptyChainRemovalInput(saved: string): string {
  const lines = saved.split("\n");
  const chains = lines.flatMap((line) => /^:(CNI-HOSTPORT-\S+)/.exec(line)?.[1] ?? []);
  if (chains.length === 0 || lines.some((line) => line.startsWith("-A CNI-HOSTPORT-DNAT "))) return "";
  const jumps = lines.filter((line) => !line.startsWith("-A CNI-") && / -j CNI-HOSTPORT-/.test(line));
  return [
    "*nat",
    ...jumps.map((rule) => rule.replace(/^-A/, "-D")),
    // CNI-HOSTPORT-DNAT is not flushed: it holds the pods' rules, and if it is not empty the transaction must fail.
    ...chains.filter((chain) => chain !== "CNI-HOSTPORT-DNAT").map((chain) => `-F ${chain}`),
    ...chains.map((chain) => `-X ${chain}`),
    "COMMIT",
    "",
  ].join("\n");
}
