import { type Files, FilesError } from "../../../host/fs/files.ts";
import type { Mount, Mounts } from "../../../host/fs/mounts.ts";
import { networkMountOf } from "../../../host/fs/network-file-systems.ts";
import type { NetworkFiles } from "../../../host/fs/network-files.ts";
import type { VolumeDeps } from "./volume-deps.ts";

/** The calls of a set-up of a volume on paths of the node, which are absolute. Each throws `FilesError`. */
export interface PathCalls
  extends Pick<Files, "stat" | "realPath" | "makeFolder" | "makeEmptyFile" | "changeGroup">,
    Pick<Mounts, "bind"> {}

export type PathCallsDeps = Pick<VolumeDeps, "networkFiles"> & {
  readonly disk: { readonly machine: Files };
  readonly mounts: Pick<Mounts, "bind" | "list">;
};

/**
 * Returns the calls for these paths. Where one of them is on a file system that may stop answering, each call runs in a
 * process of its own, and a failure says which mount does not answer. Rejects with the signal's reason when that aborts
 * such a call.
 */
export async function pathCallsFor(
  { disk: { machine }, mounts, networkFiles }: PathCallsDeps,
  paths: readonly string[],
  signal: AbortSignal,
): Promise<PathCalls> {
  const table = await mounts.list();
  for (const path of paths) {
    const mount = await networkMountOf(path, table, machine.readLink);
    if (mount !== undefined) return networkCalls(networkFiles, mount, signal);
  }
  const { stat, realPath, makeFolder, makeEmptyFile, changeGroup } = machine;
  return { stat, realPath, makeFolder, changeGroup, makeEmptyFile, bind: mounts.bind.bind(mounts) };
}

function networkCalls(files: NetworkFiles, mount: Mount, signal: AbortSignal): PathCalls {
  const run = <T>(call: Promise<T>) => call.catch((error: unknown): never => throwWithMount(error, mount));
  return {
    stat: (path) => run(files.stat(path, signal)),
    realPath: (path) => run(files.realPath(path, signal)),
    makeFolder: (path, mode) => run(files.makeFolder(path, mode, signal)),
    makeEmptyFile: (path, mode) => run(files.makeEmptyFile(path, mode, signal)),
    changeGroup: (path, change) => run(files.changeGroup(path, change)),
    bind: (source, target, options) => run(files.bind(source, target, options, signal)),
  };
}

function throwWithMount(error: unknown, { mountPoint, source, fsType }: Mount): never {
  if (!(error instanceof FilesError) || error.code !== "ETIMEDOUT") throw error;
  const text = `${error.message}; ${source} (${fsType}) is mounted at ${mountPoint}`;
  throw new FilesError(error.code, error.path, text, { cause: error });
}
