import type { Files } from "../../host/fs/files.ts";
import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import { containerFolder, terminationLog, terminationMessagePath } from "../translate/volumes/paths.ts";

/**
 * Makes the empty file that an instance of a container finds at its `terminationMessagePath`, where any user of it may write. What
 * an earlier try has left there is emptied. Throws `FilesError`.
 */
export async function makeTerminationLog(root: Files, pod: Pod, container: Container, attempt: number): Promise<void> {
  const { uid = "" } = pod.metadata;
  if (terminationMessagePath(container) === undefined) return;
  await root.makeFolder(containerFolder(uid, container.name), 0o750);
  await root.makeFile(terminationLog(uid, container.name, attempt), 0o666);
}

/** Removes it. Absent is success. Throws `FilesError`. */
export async function removeTerminationLog(
  root: Files,
  { uid, container, attempt }: { readonly uid: string; readonly container: string; readonly attempt: number },
): Promise<void> {
  await root.remove(terminationLog(uid, container, attempt));
}
