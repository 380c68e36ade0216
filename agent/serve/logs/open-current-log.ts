import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import type { Clock } from "../../../host/clock.ts";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import type { ReadableFile } from "../../../host/fs/readable-file.ts";
import { placeOf } from "./log-reader.ts";

/** A rotation takes some milliseconds from the rename to the new file. */
const MAX_WAIT_MS = 1_000;

const isAbsent = (error: unknown) => error instanceof FilesError && error.code === "ENOENT";

/** Opens the log of a running container, also while it is rotated and there is none. Rejects with `FilesError`. */
export async function openCurrentLog(
  { logs, clock }: { readonly logs: Pick<Files, "open" | "watch">; readonly clock: Clock },
  path: string,
  signal: AbortSignal,
): Promise<ReadableFile> {
  try {
    return await logs.open(path);
  } catch (error) {
    if (!isAbsent(error)) throw error;
  }
  const { folder, name } = placeOf(path);
  const created = createAutoResetEvent(clock);
  const watching = new AbortController();
  logs.watch(folder, (file) => (file === undefined || file === name) && created.set(), created.set, watching.signal);
  const deadline = clock.now() + MAX_WAIT_MS;
  try {
    for (;;) {
      try {
        return await logs.open(path);
      } catch (error) {
        if (!isAbsent(error) || clock.now() >= deadline || signal.aborted) throw error;
      }
      await created.wait(deadline, signal);
    }
  } finally {
    watching.abort();
  }
}
