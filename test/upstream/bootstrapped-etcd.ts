import { createHash } from "node:crypto";
import { mkdir, mkdtemp, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { ifAbsent } from "../bed/if-absent.ts";
import { cacheFolder } from "../bed/packages.ts";
import { apiServerArgs, controlPlaneFiles, etcdArgs } from "./control-plane-args.ts";

/**
 * The folder in the cache for an etcd's data that holds what an API server creates at its first start: namespaces,
 * roles, priority levels. It differs for other programs and other flags; paths and ports of a control plane do not
 * matter. The folder may be absent. Rejects if a program is absent.
 */
export async function bootstrappedEtcdFolder(
  programs: string,
  flags: readonly string[] = bootstrapFlags(),
  cache = cacheFolder(),
): Promise<string> {
  const builds = ["etcd", "kube-apiserver"].map(async (program) => {
    const { size, mtimeMs } = await stat(join(programs, program));
    return [program, size, mtimeMs];
  });
  const key = createHash("sha256").update(JSON.stringify([await Promise.all(builds), flags]));
  return join(cache, "upstream", "etcd-data", key.digest("hex").slice(0, 16));
}

function bootstrapFlags(): readonly string[] {
  const ports = { etcd: 0, etcdPeer: 0, apiServer: 0, "kube-controller-manager": 0, "kube-scheduler": 0 };
  const plan = { files: controlPlaneFiles("folder", "certs", "data"), ports };
  return [...etcdArgs(plan), ...apiServerArgs(plan)];
}

/** Copies `folder` to the absent folder `etcdData`. Returns false if `folder` is absent. */
export async function copyBootstrappedEtcd(folder: string, etcdData: string): Promise<boolean> {
  const found = await stat(folder).catch(ifAbsent(undefined));
  if (found === undefined) return false;
  await copySparse(folder, etcdData);
  return true;
}

/**
 * Calls `start`, which starts servers with a copy of `folder`. If it rejects, removes `folder`, since its data may be
 * damaged: the next start then has no copy.
 */
export async function removeOnFailure<T>(folder: string, start: () => Promise<T>): Promise<T> {
  try {
    return await start();
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

/** Stores the data of an etcd that has ended. Another process may store the same at the same time. */
export async function storeBootstrappedEtcd(etcdData: string, folder: string): Promise<void> {
  const parent = dirname(folder);
  await mkdir(parent, { recursive: true });
  const work = await mkdtemp(join(parent, ".storing-"));
  try {
    await copySparse(etcdData, join(work, "data"));
    // etcd does not sync what it writes. A power cut must leave all of the stored data, or none.
    await execa("sync", ["--file-system", work]);
    await rename(join(work, "data"), folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(work, { recursive: true });
  }
}

/** etcd preallocates 64 MB of WAL and writes 200 kB. */
async function copySparse(from: string, to: string): Promise<void> {
  await execa("cp", ["--recursive", "--sparse=always", "--no-target-directory", from, to]);
}
