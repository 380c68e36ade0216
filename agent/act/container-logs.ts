import type { Files } from "../../host/files.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { containerLogPath, podLogFolder } from "../translate/log-path.ts";
import { TranslateError } from "../translate/translate-error.ts";

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

/**
 * Removes the log of one instance of a container, and what rotation has made of it. The newest log of a container stays in any case:
 * by its number instances are counted, should the runtime lose them all. What is not there is removed already. Throws `FilesError`.
 */
export async function removeInstanceLogs(
  logs: Files,
  podFolder: string,
  container: string,
  attempt: number,
): Promise<void> {
  // A name that the runtime tells might lead elsewhere, and so might a link; only what is found is gone into.
  if ((await logs.readLink(podFolder)) !== undefined) return;
  const folders = (await logs.list(podFolder)) ?? [];
  if (!folders.some(({ name, kind }) => name === container && kind === "directory")) return;
  const folder = `${podFolder}/${container}`;
  const all = ((await logs.list(folder)) ?? []).map(({ name }) => ({ name, attempt: attemptOf(name) }));
  const newest = Math.max(...all.map((each) => each.attempt ?? -1));
  if (attempt >= newest) return;
  for (const { name } of all.filter((each) => each.attempt === attempt)) await logs.remove(`${folder}/${name}`);
}

/** `3.log`, and of rotation `3.log.20060102-150405`, with `.gz` or `.tmp` behind it: all are of attempt 3. */
function attemptOf(file: string): number | undefined {
  const [, digits] = /^(\d+)\.log(\.|$)/.exec(file) ?? [];
  return digits === undefined ? undefined : Number(digits);
}
