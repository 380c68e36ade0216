import type { FileKind } from "../../../host/fs/files.ts";
import type { Volume } from "../../../proto/kubernetes/gen/types.ts";
import { mountError } from "../../translate/volumes/mount-error.ts";
import { type PathCallsDeps, pathCallsFor } from "./path-calls.ts";

/** The file type that each hostPath type requires, and the kubelet's words for it. */
const HOST_PATH_KINDS: Readonly<Record<string, readonly [kind: FileKind, words: string]>> = {
  DirectoryOrCreate: ["directory", "a directory"],
  Directory: ["directory", "a directory"],
  FileOrCreate: ["file", "a file"],
  File: ["file", "a file"],
  Socket: ["socket", "a socket file"],
  CharDevice: ["character device", "a character device"],
  BlockDevice: ["block device", "a block device"],
};

/**
 * Checks a hostPath, and makes what its type wants to be made
 * (https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types). Throws `FilesError`,
 * `TranslateError`, or the signal's reason.
 */
export async function checkHostPath(
  deps: PathCallsDeps,
  volume: Volume & Required<Pick<Volume, "hostPath">>,
  signal: AbortSignal,
): Promise<void> {
  const { path, type = "" } = volume.hostPath;
  // The API server refuses it, too. Like the kubelet the node does not rely on that.
  if (path.split("/").includes("..")) throw mountError(volume, `invalid HostPath \`${path}\`: must not contain '..'`);
  if (type === "") return;
  const toError = (why: string) => mountError(volume, `hostPath type check failed: ${path} ${why}`);
  const [kind, description] = Object.hasOwn(HOST_PATH_KINDS, type) ? (HOST_PATH_KINDS[type] ?? []) : [];
  if (kind === undefined) throw toError(`has the type ${JSON.stringify(type)}, which this release does not know`);
  const calls = await pathCallsFor(deps, [path], signal);
  const found = await calls.stat(path);
  if (found === undefined && type === "DirectoryOrCreate") return await calls.makeFolder(path, 0o755);
  if (found === undefined && type === "FileOrCreate") return await calls.makeEmptyFile(path, 0o644);
  if (found?.kind === kind) return;
  const actual = found === undefined ? "does not exist" : `is a ${found.kind}`;
  throw toError(`is not ${description}: it ${actual}`);
}
