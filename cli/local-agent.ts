import { localSocket } from "../agent/local-socket.ts";

/** The socket of the agent that has this root directory. */
export function socketBelow(rootDir: string): string {
  return `${rootDir}/${localSocket}`;
}

/** Whoever reads may have read enough: `berth pods --watch | head` is no mistake. For the errors of standard output. */
export function leaveQuietly(error: Error): void {
  if (!("code" in error) || error.code !== "EPIPE") throw error;
  process.exit(0);
}

/** Why an agent does not answer, for people. The engine's own words would ask for a typo in a URL that nobody has typed. */
export function whyNot(error: unknown): string {
  const cures: Readonly<Record<string, string>> = {
    ENOENT: "there is no such socket: is it running, and with this --root-dir?",
    ECONNREFUSED: "nobody listens there: is it running?",
    EACCES: "you may not ask it: are you root?",
    EPERM: "you may not ask it: are you root?",
    ECONNRESET: "it has ended just now",
  };
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return cures[code] ?? (error instanceof Error ? error.message : String(error));
}
