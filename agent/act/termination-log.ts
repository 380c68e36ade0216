import type { Files } from "../../host/fs/files.ts";
import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import { containerDir, terminationLogFile, terminationMessagePath } from "../translate/volumes/paths.ts";

/**
 * Creates the empty file that is mounted at a container instance's `terminationMessagePath`, writable for any user.
 * Truncates what an earlier attempt left there. Throws `FilesError`.
 */
export async function createTerminationLog(
  root: Files,
  pod: Pod,
  container: Container,
  attempt: number,
): Promise<void> {
  const { uid = "" } = pod.metadata;
  if (terminationMessagePath(container) === undefined) return;
  await root.makeFolder(containerDir(uid, container.name), 0o750);
  await root.makeFile(terminationLogFile(uid, container.name, attempt), 0o666);
}

/** Removes the file. Absent is success. Throws `FilesError`. */
export async function removeTerminationLog(
  root: Files,
  { uid, container, attempt }: { readonly uid: string; readonly container: string; readonly attempt: number },
): Promise<void> {
  await root.remove(terminationLogFile(uid, container, attempt));
}
