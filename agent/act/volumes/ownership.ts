import type { Files, FilesError } from "../../../host/fs/files.ts";

/** To which group the files of a volume belong. */
export interface Ownership {
  /** The pod's `securityContext.fsGroup`. */
  readonly group: number;
  /** The volume is mounted read-only: the group needs no right to write. */
  readonly isReadOnly: boolean;
  /** By default `Always`. */
  readonly policy: "Always" | "OnRootMismatch" | undefined;
}

/** `unchanged`: by the policy nothing had to be looked at. */
export type OwnershipResult =
  | { readonly outcome: "unchanged" }
  /** `failure`: the first file that could not be changed. Like the kubelet the caller reports it, and the pod starts. */
  | { readonly outcome: "changed"; readonly count: number; readonly failure: FilesError | undefined };

const SET_GROUP_ID = 0o2000;

/**
 * Gives a volume to the pod's fsGroup, as the kubelet does: the group may read and write, and new files belong to it
 * (https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#set-the-security-context-for-a-pod). It
 * may take minutes: `onProgress` is called with the number of files so far. Throws `FilesError`, or the signal's reason.
 */
export async function ensureOwnership(
  files: Pick<Files, "stat" | "changeGroup">,
  folder: string,
  { group, isReadOnly, policy }: Ownership,
  signal: AbortSignal,
  onProgress?: (count: number) => void,
): Promise<OwnershipResult> {
  const addedFileMode = isReadOnly ? 0o440 : 0o660;
  const addedFolderMode = addedFileMode | 0o110 | SET_GROUP_ID;
  if (policy === "OnRootMismatch") {
    const found = await files.stat(folder);
    const isDone = found?.group === group && (found.mode & addedFolderMode) === addedFolderMode;
    if (isDone && found.kind === "directory") return { outcome: "unchanged" };
  }
  const change = { group, addedFileMode, addedFolderMode, signal, ...(onProgress && { onProgress }) };
  return { outcome: "changed", ...(await files.changeGroup(folder, change)) };
}
