import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { processStart } from "./processes.ts";

/**
 * What must be known to remove a bed whose owner was killed: where it lives and what it is called in the kernel. Kept
 * below /run, which a reboot empties together with the kernel's state.
 */
export interface BedRecord {
  readonly id: string;
  readonly stateDir: string;
  readonly bridge: string;
  readonly network: string;
  readonly subnet: string;
  /** The process that made the bed, with its start time in clock ticks, since process ids are used again. */
  readonly owner: { readonly pid: number; readonly start: string };
}

const recordsFolder = "/run/berth-bed";

/** The paths below a state folder. */
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
 * The record that a dead owner left of this state folder, to be cleaned before the folder is used again; undefined if
 * there is none. Throws if a living process holds the folder.
 */
export async function findAbandoned(folder: string): Promise<BedRecord | undefined> {
  const stateDir = resolve(folder);
  const record = (await listRecords()).find((other) => other.stateDir === stateDir);
  if (record !== undefined && (await ownerLives(record)))
    throw new Error(
      `${stateDir} is in use by process ${record.owner.pid}: end that by Ctrl-C where it runs, or use another clone`,
    );
  return record;
}

/** Claims a state folder for this process and picks its bridge and subnet. Throws if it is claimed already. */
export async function claim(folder: string): Promise<BedRecord> {
  const stateDir = resolve(folder);
  const id = createHash("sha256").update(stateDir).digest("hex").slice(0, 8);
  const subnet = pickSubnet(id, new Set((await listRecords()).map((other) => other.subnet)));
  const owner = { pid: process.pid, start: (await processStart(process.pid)) ?? "" };
  const name = `berth-${id}`;
  const record = { id, stateDir, bridge: name, network: name, subnet, owner };
  await mkdir(recordsFolder, { recursive: true, mode: 0o700 });
  await writeFile(fileOf(record), JSON.stringify(record), { flag: "wx" });
  return record;
}

/** A /24 below 10.192.0.0/10 that follows from the bed's id, or the next one after it that nobody else took. */
export function pickSubnet(id: string, taken: ReadonlySet<string>): string {
  const first = Number.parseInt(id.slice(0, 4), 16) & 0x3fff;
  for (let step = 0; step < 0x4000; step++) {
    const at = (first + step) & 0x3fff;
    const subnet = `10.${192 + (at >> 8)}.${at & 255}.0/24`;
    if (!taken.has(subnet)) return subnet;
  }
  throw new Error("no free subnet below 10.192.0.0/10");
}

/** All beds of this machine that have not been cleaned, whoever made them. */
export async function listRecords(): Promise<readonly BedRecord[]> {
  const names = await readdir(recordsFolder).catch(() => []);
  const texts = await Promise.all(names.map((name) => readFile(join(recordsFolder, name), "utf8").catch(() => "")));
  // A record that was being written when its owner died is empty: nothing had been started yet.
  return texts.filter((text) => text.endsWith("}")).map((text) => JSON.parse(text) as BedRecord);
}

export async function ownerLives(record: BedRecord): Promise<boolean> {
  return (await processStart(record.owner.pid)) === record.owner.start;
}

/** When the bed was claimed, in milliseconds since 1970; undefined if it was forgotten. */
export async function claimedAt(record: BedRecord): Promise<number | undefined> {
  return (await stat(fileOf(record)).catch(() => undefined))?.mtimeMs;
}

export async function forget(record: BedRecord): Promise<void> {
  await rm(fileOf(record), { force: true });
}

const fileOf = ({ id }: Pick<BedRecord, "id">) => join(recordsFolder, `${id}.json`);
