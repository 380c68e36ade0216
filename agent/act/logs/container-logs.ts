import type { Files } from "../../../host/fs/files.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { attemptOfLog } from "../../decide/container/log-file-name.ts";
import { containerLogPath, podLogDir } from "../../translate/log-path.ts";
import { TranslateError } from "../../translate/translate-error.ts";

/**
 * Throws `TranslateError` if a part of the log path of a container instance is a symlink. The runtime would follow it,
 * so a container with access to the node's log directory could write its output to any file of the node.
 */
export async function rejectLogSymlinks(logs: Files, pod: Pod, container: string, attempt: number): Promise<void> {
  const folder = podLogDir(pod);
  const path = `${folder}/${containerLogPath(container, attempt)}`;
  const components = [folder, `${folder}/${container}`, path];
  const targets = await Promise.all(components.map((each) => logs.readLink(each)));
  const link = components.find((_, at) => targets[at] !== undefined);
  if (link !== undefined)
    throw new TranslateError(
      "CreateContainerError",
      `the log of container ${container} cannot be written: ${logs.path(link)} is a symlink; remove it`,
    );
}

/** One instance of a container, and the attempts of all other instances that the runtime still has. */
export interface LoggedInstance {
  readonly name: string;
  readonly attempt: number;
  readonly others: readonly number[];
}

/**
 * Removes the log of one container instance, the logs of older instances that the runtime no longer has, and their
 * rotated files. The newest log of a container always stays: users read it to see why the instance exited, and its
 * number keeps the restart count if the runtime loses all instances. A later instance's removal takes it along. Absent
 * is success. Throws `FilesError`.
 */
export async function removeInstanceLogs(
  logs: Files,
  podFolder: string,
  { name: container, attempt, others }: LoggedInstance,
): Promise<void> {
  // A container name from the runtime, or a symlink, could lead outside: enter only directories that a listing shows.
  if ((await logs.readLink(podFolder)) !== undefined) return;
  const folders = (await logs.list(podFolder)) ?? [];
  if (!folders.some(({ name, kind }) => name === container && kind === "directory")) return;
  const folder = `${podFolder}/${container}`;
  const all = ((await logs.list(folder)) ?? []).flatMap(({ name }) => {
    const number = attemptOfLog(name);
    return number === undefined ? [] : [{ name, number }];
  });
  const newest = Math.max(...all.map(({ number }) => number));
  const isRemovable = ({ number }: (typeof all)[number]) =>
    number <= attempt && number < newest && (number === attempt || !others.includes(number));
  for (const { name } of all.filter(isRemovable)) await logs.remove(`${folder}/${name}`);
}
