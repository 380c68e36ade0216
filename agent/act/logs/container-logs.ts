import type { Files } from "../../../host/fs/files.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { attemptOfLog } from "../../decide/container/log-file-name.ts";
import { containerLogPath, podLogFolder } from "../../translate/log-path.ts";
import { TranslateError } from "../../translate/translate-error.ts";

/**
 * The runtime follows a symlink that stands in the way of an instance's log, and writes what the container says to wherever it leads. So
 * a container that reaches the node's logs could write anywhere on the node. Throws `TranslateError` for such a link.
 */
export async function refuseLinksToLog(logs: Files, pod: Pod, container: string, attempt: number): Promise<void> {
  const folder = podLogFolder(pod);
  const path = `${folder}/${containerLogPath(container, attempt)}`;
  const ways = [folder, `${folder}/${container}`, path];
  const targets = await Promise.all(ways.map((each) => logs.readLink(each)));
  const link = ways.find((_, at) => targets[at] !== undefined);
  if (link !== undefined)
    throw new TranslateError(
      "CreateContainerError",
      `the log of container ${container} cannot be written: ${logs.path(link)} is a symlink; remove it`,
    );
}

/** One instance of a container, and the numbers of all others of which the runtime has something. */
export interface LoggedInstance {
  readonly name: string;
  readonly attempt: number;
  readonly others: readonly number[];
}

/**
 * Removes the log of one instance of a container, those of all that were before it and of which nothing else is left, and what rotation has
 * made of them. The newest log of a container stays in any case: it is of use to whoever asks why that instance ended, and by its number
 * instances are counted, should the runtime lose them all. It goes with a later instance. What is not there is removed already. Throws
 * `FilesError`.
 */
export async function removeInstanceLogs(
  logs: Files,
  podFolder: string,
  { name: container, attempt, others }: LoggedInstance,
): Promise<void> {
  // A name that the runtime tells might lead elsewhere, and so might a link; only what is found is gone into.
  if ((await logs.readLink(podFolder)) !== undefined) return;
  const folders = (await logs.list(podFolder)) ?? [];
  if (!folders.some(({ name, kind }) => name === container && kind === "directory")) return;
  const folder = `${podFolder}/${container}`;
  const all = ((await logs.list(folder)) ?? []).flatMap(({ name }) => {
    const number = attemptOfLog(name);
    return number === undefined ? [] : [{ name, number }];
  });
  const newest = Math.max(...all.map(({ number }) => number));
  const isOver = ({ number }: (typeof all)[number]) =>
    number <= attempt && number < newest && (number === attempt || !others.includes(number));
  for (const { name } of all.filter(isOver)) await logs.remove(`${folder}/${name}`);
}
