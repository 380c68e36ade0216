import { rm, rmdir } from "node:fs/promises";
import { dirname } from "node:path";
import { execa } from "execa";
import { until } from "../poll-until.ts";
import { type BedRecord, bedPaths, claimedAt, forget } from "./bed-record.ts";
import {
  describeLeftovers,
  devicePlugins,
  findContainers,
  findLeftovers,
  type Leftovers,
  rulesOfNetwork,
} from "./bed-resources.ts";
import { apart } from "./processes.ts";
import { findDeadSockets } from "./shim-sockets.ts";

/**
 * Removes a bed: ends its processes, then unmounts, then deletes links, rules, cgroups and files, looks again, and does
 * not return before nothing is left. One way for a bed in use and for one whose owner was killed, so that the way which
 * matters most is used most. Returns what there was. Throws with what is left if something stays for 20 s.
 */
export async function cleanUp(bed: BedRecord): Promise<Leftovers> {
  const ids = await findContainers(bed);
  const first = await findLeftovers(bed, ids);
  let left = first;
  try {
    await until("an empty bed", 20_000, async () => {
      if (describeLeftovers(left).length === 0) return true;
      await removeOnce(bed, left);
      left = await findLeftovers(bed, ids);
      return false;
    });
  } catch (cause) {
    throw new Error(`cannot clean ${bed.stateDir}: ${describeLeftovers(left).join("; ")}`, { cause });
  }
  await dropEmptyPortmapChains();
  const since = (await claimedAt(bed)) ?? Number.POSITIVE_INFINITY;
  for (const path of await findDeadSockets(since)) await rm(path, { force: true });
  const { home, cni, registryHosts, registryConfig, registryStore, ...more } = bedPaths(bed.stateDir);
  const { controlPlane, kubeletConfig, kubeletRoot } = more;
  const ours = [home, cni, registryHosts, registryConfig, registryStore, controlPlane, kubeletConfig, kubeletRoot];
  for (const path of ours) await rm(path, { recursive: true, force: true });
  await forget(bed);
  return first;
}

/** Everything in one pass may fail for what was already going away: the next look says what is really left. */
async function removeOnce(bed: BedRecord, left: Leftovers): Promise<void> {
  for (const pid of left.processes) kill(pid);
  if (left.processes.length > 0) return;
  if (left.mounts.length > 0) await execa("umount", [...left.mounts], { ...apart, reject: false });
  for (const link of left.links) await execa("ip", ["link", "delete", link], { ...apart, reject: false });
  if (left.rules.length > 0) await removeRules(bed.network);
  for (const path of left.cgroups) {
    await rmdir(path).catch(() => undefined);
    // The common parent goes with its last child; with a sibling inside the kernel refuses, which is right.
    await rmdir(dirname(path)).catch(() => undefined);
  }
  for (const file of left.files) {
    await rm(file, { force: true });
    if (dirname(file) !== devicePlugins) continue;
    // Both folders go if they are empty, and what is in them otherwise is not ours.
    for (const folder of [devicePlugins, dirname(devicePlugins)]) await rmdir(folder).catch(() => undefined);
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself between the look and the kill.
  }
}

async function removeRules(network: string): Promise<void> {
  await restore(removalOf(await savedRules(), network));
}

async function savedRules(): Promise<string> {
  const { stdout } = await execa("iptables-save", ["-t", "nat"], apart);
  return stdout;
}

async function restore(input: string): Promise<void> {
  await execa("iptables-restore", ["--noflush", "--wait"], { ...apart, input, reject: false });
}

/**
 * The input for `iptables-restore --noflush` that takes away the rules of `network` and the chains that only they use,
 * given the output of `iptables-save -t nat`.
 */
export function removalOf(saved: string, network: string): string {
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
 * portmap leaves its common chains behind for ever. Without a pod's rule in them they do nothing, and the plugin makes
 * them anew when it needs them. The transaction is refused as a whole if a rule came in between.
 */
async function dropEmptyPortmapChains(): Promise<void> {
  const removal = removalOfEmptyChains(await savedRules());
  if (removal !== "") await restore(removal);
}

/** The input for `iptables-restore --noflush` that removes portmap's common chains, or "" while a pod uses them. */
export function removalOfEmptyChains(saved: string): string {
  const lines = saved.split("\n");
  const chains = lines.flatMap((line) => /^:(CNI-HOSTPORT-\S+)/.exec(line)?.[1] ?? []);
  if (chains.length === 0 || lines.some((line) => line.startsWith("-A CNI-HOSTPORT-DNAT "))) return "";
  const jumps = lines.filter((line) => !line.startsWith("-A CNI-") && / -j CNI-HOSTPORT-/.test(line));
  return [
    "*nat",
    ...jumps.map((rule) => rule.replace(/^-A/, "-D")),
    // The one of the pods is empty, or is to refuse all of this.
    ...chains.filter((chain) => chain !== "CNI-HOSTPORT-DNAT").map((chain) => `-F ${chain}`),
    ...chains.map((chain) => `-X ${chain}`),
    "COMMIT",
    "",
  ].join("\n");
}
