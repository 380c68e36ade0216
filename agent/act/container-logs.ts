import type { Files } from "../../host/files.ts";

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
  // A name that the runtime tells might lead elsewhere; only what is found is gone into.
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
