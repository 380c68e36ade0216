import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { ifAbsent } from "../if-absent.ts";
import { processStart } from "./processes.ts";

/**
 * The record that makes it possible to remove a test bed whose owner was killed: its folder and its names in the
 * kernel. Stored below /run, which a reboot empties together with the kernel's state.
 */
export interface BedRecord {
  readonly id: string;
  readonly stateDir: string;
  readonly bridge: string;
  readonly network: string;
  readonly subnet: string;
  /** The process that created the bed, with its start time in clock ticks, since the kernel reuses process ids. */
  readonly owner: { readonly pid: number; readonly start: string };
}

const recordsDir = "/run/berth-bed";

/** The paths of a test bed below its state folder. */
export function bedPaths(stateDir: string) {
  const home = join(stateDir, "containerd");
  return {
    home,
    root: join(home, "root"),
    state: join(home, "state"),
    socket: join(home, "containerd.sock"),
    config: join(home, "config.toml"),
    log: join(stateDir, "containerd.log"),
    cni: join(stateDir, "cni"),
    cniConfDir: join(stateDir, "cni", "net.d"),
    cniDelegateDir: join(stateDir, "cni", "delegate.d"),
    cniBinDir: join(stateDir, "cni", "bin"),
    cniCache: join(stateDir, "cni", "cache"),
    cniLeases: join(stateDir, "cni", "leases"),
    registryHosts: join(stateDir, "registry-hosts"),
    registryConfig: join(stateDir, "registry.yml"),
    registryStore: join(stateDir, "registry"),
    agentConfig: join(stateDir, "kubelet.yaml"),
    agentRoot: join(stateDir, "kubelet"),
    agentLog: join(stateDir, "berth.log"),
    podLogs: join(stateDir, "pod-logs"),
    manifests: join(stateDir, "manifests"),
    controlPlane: join(stateDir, "control-plane"),
    etcdData: join(stateDir, "control-plane", "etcd"),
    controlPlaneCerts: join(stateDir, "control-plane", "certs"),
    kubeletConfig: join(stateDir, "reference-kubelet.yaml"),
    kubeletRoot: join(stateDir, "reference-kubelet"),
    kubeletLog: join(stateDir, "reference-kubelet.log"),
  };
}

/**
 * Returns the record of this state folder if its owner has died, so that the caller can clean up before it uses the
 * folder; undefined if there is none. Throws if a living process uses the folder.
 */
export async function findAbandonedBed(folder: string): Promise<BedRecord | undefined> {
  const stateDir = resolve(folder);
  const record = (await listRecords()).find((other) => other.stateDir === stateDir);
  if (record !== undefined && (await isOwnerAlive(record)))
    throw new Error(
      `${stateDir} is in use by process ${record.owner.pid}: stop that process with Ctrl-C, or use another clone`,
    );
  return record;
}

/** Claims a state folder for this process and picks its bridge and subnet. Throws if the folder is claimed already. */
export async function claimStateDir(folder: string): Promise<BedRecord> {
  const stateDir = resolve(folder);
  const id = createHash("sha256").update(stateDir).digest("hex").slice(0, 8);
  const subnet = pickSubnet(id, new Set((await listRecords()).map((other) => other.subnet)));
  const owner = { pid: process.pid, start: (await processStart(process.pid)) ?? "" };
  const name = `berth-${id}`;
  const record = { id, stateDir, bridge: name, network: name, subnet, owner };
  await mkdir(recordsDir, { recursive: true, mode: 0o700 });
  await writeFile(recordPath(record), JSON.stringify(record), { flag: "wx" });
  return record;
}

/** Picks a /24 below 10.192.0.0/10 by the bed's id, or the next free one after it. */
export function pickSubnet(id: string, used: ReadonlySet<string>): string {
  const first = Number.parseInt(id.slice(0, 4), 16) & 0x3fff;
  for (let step = 0; step < 0x4000; step++) {
    const at = (first + step) & 0x3fff;
    const subnet = `10.${192 + (at >> 8)}.${at & 255}.0/24`;
    if (!used.has(subnet)) return subnet;
  }
  throw new Error("no free subnet below 10.192.0.0/10");
}

/** The records of all test beds of this machine, of any clone, that have not been cleaned up. */
export async function listRecords(): Promise<readonly BedRecord[]> {
  const names = await readdir(recordsDir).catch(ifAbsent([]));
  const texts = await Promise.all(names.map((name) => readFile(join(recordsDir, name), "utf8").catch(ifAbsent(""))));
  // A record is incomplete if its owner died while writing it: then nothing had been started yet.
  return texts.filter((text) => text.endsWith("}")).map((text) => JSON.parse(text) as BedRecord);
}

export async function isOwnerAlive(record: BedRecord): Promise<boolean> {
  return (await processStart(record.owner.pid)) === record.owner.start;
}

/** When the bed was claimed, in milliseconds since the epoch; undefined if it has no record any more. */
export async function recordedAt(record: BedRecord): Promise<number | undefined> {
  return (await stat(recordPath(record)).catch(ifAbsent(undefined)))?.mtimeMs;
}

export async function deleteRecord(record: BedRecord): Promise<void> {
  await rm(recordPath(record), { force: true });
}

const recordPath = ({ id }: Pick<BedRecord, "id">) => join(recordsDir, `${id}.json`);
