import { relative } from "node:path/posix";
import { type Files, FilesError } from "../../../host/fs/files.ts";
import { ContainerState, type ContainerStatus } from "../../../proto/cri/gen/api.ts";
import {
  terminationMessagePathAnnotation,
  terminationMessagePolicyAnnotation,
} from "../../../proto/kubernetes/well-known-names.ts";

/** What a container that has ended has left to say, as `status.containerStatuses[].state.terminated.message` shows it. */
export interface LastWords {
  /** Never rejects: that it cannot be read is said in its place, as by the kubelet. */
  of(status: ContainerStatus): Promise<string>;
}

const LONGEST_BYTES = 4096;
const LONGEST_FROM_LOG_BYTES = 2048;
const MOST_LOG_LINES = 80;
/** Enough for as many lines of so many bytes together, with the time before each. */
const LOG_END_BYTES = 32_768;

/** `root` is the agent's root directory, `logs` its `podLogsDir`. */
export function createLastWords(root: Files, logs: Files): LastWords {
  return {
    async of(status) {
      if (status.state !== ContainerState.CONTAINER_EXITED) return "";
      const { message, logPath } = status;
      const own = await wordsAt(hostPathOf(status), root, "termination log", (path) =>
        root.readEnd(path, LONGEST_BYTES),
      );
      const words = own === "" && fallsBack(status) ? await logEnd(logs, logPath) : own;
      return [message, words].filter((each) => each !== "").join(": ");
    },
  };
}

/** The runtime tells where the file is on the host: an earlier agent, or a kubelet, may have called it otherwise than we do. */
function hostPathOf({ annotations, mounts }: ContainerStatus): string | undefined {
  const path = annotations[terminationMessagePathAnnotation];
  if (!path) return undefined;
  const inside = path.startsWith("/") ? path : `/${path}`;
  return mounts.find(({ containerPath }) => containerPath === inside)?.hostPath;
}

/** A container that could not be started has no log. */
function fallsBack({ annotations, exitCode, reason }: ContainerStatus): boolean {
  const isWanted = annotations[terminationMessagePolicyAnnotation] === "FallbackToLogsOnError";
  return isWanted && exitCode !== 0 && reason !== "ContainerCannotRun";
}

/** A container that reaches the node's logs may put links there, to what it may not read itself. */
async function logEnd(logs: Files, logPath: string): Promise<string> {
  return await wordsAt(logPath || undefined, logs, "termination message from logs", async (path) =>
    endOfLog(await logs.readEnd(path, LOG_END_BYTES, { withoutLinks: true })),
  );
}

/** The text of the last lines of a log in the CRI's format; a line that is cut off at its beginning is left out. */
export function endOfLog(log: string): string {
  const lines = log.split("\n").slice(0, -1).slice(-MOST_LOG_LINES);
  const text = lines.map((line) => {
    const [, tag = "", words = ""] = /^\S+ (?:stdout|stderr) (\S+) (.*)$/.exec(line) ?? [];
    return tag.startsWith("F") ? `${words}\n` : words;
  });
  const bytes = Buffer.from(text.join(""));
  return new TextDecoder().decode(bytes.subarray(Math.max(0, bytes.length - LONGEST_FROM_LOG_BYTES)));
}

/** What is not there has nothing to say; nor has what lies outside of our own folders, which is not ours to read. */
async function wordsAt(
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
