import { relative } from "node:path/posix";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import { ContainerState, type ContainerStatus } from "../../../proto/cri/gen/api.ts";
import {
  terminationMessagePathAnnotation,
  terminationMessagePolicyAnnotation,
} from "../../../proto/kubernetes/well-known-names.ts";

/** Reads termination messages, for `status.containerStatuses[].state.terminated.message`. */
export interface TerminationMessages {
  /** Never rejects: as with the kubelet, an error of the read becomes the message. */
  read(status: ContainerStatus): Promise<string>;
}

const MAX_BYTES = 4096;
const MAX_LOG_BYTES = 2048;
const MAX_LOG_LINES = 80;
/** Enough for that many lines with that many bytes in total, including their timestamps. */
const LOG_END_BYTES = 32_768;

/** `root` is the agent's root directory, `logs` its `podLogsDir`. */
export function createTerminationMessages(root: Files, logs: Files): TerminationMessages {
  return {
    async read(status) {
      if (status.state !== ContainerState.CONTAINER_EXITED) return "";
      const { message, logPath } = status;
      const fileMessage = await readMessageFile(hostPathOf(status), root, "termination log", (path) =>
        root.readEnd(path, MAX_BYTES),
      );
      const ownMessage = fileMessage === "" && usesLogFallback(status) ? await readLogTail(logs, logPath) : fileMessage;
      return [message, ownMessage].filter((each) => each !== "").join(": ");
    },
  };
}

/**
 * The host path of the message file by the runtime's status: an earlier agent or a kubelet may have used another name.
 */
function hostPathOf({ annotations, mounts }: ContainerStatus): string | undefined {
  const path = annotations[terminationMessagePathAnnotation];
  if (!path) return undefined;
  const inside = path.startsWith("/") ? path : `/${path}`;
  return mounts.find(({ containerPath }) => containerPath === inside)?.hostPath;
}

/** Whether the message falls back to the log. A container that could not be started has no log. */
function usesLogFallback({ annotations, exitCode, reason }: ContainerStatus): boolean {
  const isEnabled = annotations[terminationMessagePolicyAnnotation] === "FallbackToLogsOnError";
  return isEnabled && exitCode !== 0 && reason !== "ContainerCannotRun";
}

/**
 * Reads the end of a container log. Symlinks are refused: a container with access to the logs could link to files it
 * may not read.
 */
async function readLogTail(logs: Files, logPath: string): Promise<string> {
  return await readMessageFile(logPath || undefined, logs, "termination message from logs", async (path) =>
    tailOfLog(await logs.readEnd(path, LOG_END_BYTES, { withoutLinks: true })),
  );
}

/**
 * The text of the last lines of a log in the CRI format. A line without its beginning is left out.
 *
 * @internal
 */
export function tailOfLog(log: string): string {
  const lines = log.split("\n").slice(0, -1).slice(-MAX_LOG_LINES);
  const text = lines.map((line) => {
    // Not `.`, which matches neither `\r` nor U+2028.
    const [, tag = "", content = ""] = /^\S+ (?:stdout|stderr) (\S+) ([^\n]*)$/.exec(line) ?? [];
    return tag.startsWith("F") ? `${content}\n` : content;
  });
  const bytes = Buffer.from(text.join(""));
  return new TextDecoder().decode(bytes.subarray(Math.max(0, bytes.length - MAX_LOG_BYTES)));
}

/** Reads a message file. The message is empty if the file is missing, or outside of the agent's directories. */
async function readMessageFile(
  path: string | undefined,
  { root }: Files,
  what: string,
  read: (inside: string) => Promise<string>,
): Promise<string> {
  const inside = path === undefined ? ".." : relative(root, path);
  if (inside.startsWith("..")) return "";
  try {
    return await read(inside);
  } catch (error) {
    if (error instanceof FilesError && error.code === "ENOENT") return "";
    return `Error on reading ${what}: ${error instanceof Error ? error.message : String(error)}`;
  }
}
