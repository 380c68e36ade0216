import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { basename } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ifAbsent } from "../bed/if-absent.ts";
import { pollUntil } from "../bed/poll-until.ts";

/** A program that runs until it is stopped. Its output is appended to a log file. */
export interface Daemon {
  readonly pid: number;
  /** The time of its start, in milliseconds since the epoch. */
  readonly startedAt: number;
  readonly logFile: string;
  readonly isRunning: boolean;
  /** Resolves when the process has ended, for any reason. */
  readonly ended: Promise<void>;
  /** Sends the signal and returns once the process has ended. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/**
 * Starts `program` and returns at once. If the program cannot be started, the daemon returned has already ended. `env`:
 * variables beside those of this process.
 */
export function startDaemon(
  program: string,
  args: readonly string[],
  logFile: string,
  env: Readonly<Record<string, string>> = {},
): Daemon {
  const log = openSync(logFile, "a");
  const startedAt = Date.now();
  // A process group of its own: Ctrl-C in a terminal reaches only us, and we stop the daemons in order.
  const child = spawn(program, [...args], {
    ...{ detached: true, stdio: ["ignore", log, log] },
    env: { ...process.env, ...env },
  });
  closeSync(log);
  const ended = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", () => resolve());
  });
  const isRunning = () => child.pid !== undefined && child.exitCode === null && child.signalCode === null;
  return {
    pid: child.pid ?? 0,
    startedAt,
    logFile,
    get isRunning() {
      return isRunning();
    },
    ended,
    async end(signal) {
      if (!isRunning()) return;
      child.kill(signal);
      await ended;
    },
  };
}

/** Restarts a daemon whenever it exits by itself, as a cluster does with its components. `end` stops it for good. */
export function restartOnExit(first: Daemon, start: () => Daemon): Pick<Daemon, "end"> {
  let daemon = first;
  let isEnabled = true;
  const restartLoop = async () => {
    for (;;) {
      await daemon.ended;
      if (isEnabled) await pause(500);
      if (!isEnabled) return;
      daemon = start();
    }
  };
  void restartLoop();
  return {
    async end(signal) {
      isEnabled = false;
      await daemon.end(signal);
    },
  };
}

/** Waits until GET `url` returns 200. On a timeout or an exit of the daemon, throws with the last lines of its log. */
export async function waitUntilReady(
  daemon: Daemon,
  url: string,
  tls: TlsOptions = {},
  timeoutMs = 60_000,
): Promise<void> {
  const name = basename(daemon.logFile, ".log");
  try {
    await pollUntil(`an answer of ${url}`, timeoutMs, async () => {
      if (!daemon.isRunning) throw new Error(`${name} has ended`);
      return await sendRequest(url, { tls }).then(
        ({ status }) => status === 200,
        () => false,
      );
    });
  } catch (cause) {
    const lines = (await readFile(daemon.logFile, "utf8").catch(ifAbsent(""))).trimEnd().split("\n");
    throw new Error(`${name} is not ready; the end of its log ${daemon.logFile}:\n${lines.slice(-15).join("\n")}`, {
      cause,
    });
  }
}

export interface TlsOptions {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly rejectUnauthorized?: boolean;
}

/** Sends one request on a new connection, without a proxy. A `body` makes it a POST of JSON. */
export async function sendRequest(
  url: string,
  { tls = {}, body }: { readonly tls?: TlsOptions; readonly body?: unknown } = {},
): Promise<{ readonly status: number; readonly text: string }> {
  const request = url.startsWith("https:") ? httpsRequest : httpRequest;
  return await new Promise((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST";
    const outgoing = request(url, { ...tls, method, agent: false, timeout: 2000 }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => (text += chunk));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
      answer.on("error", reject);
    });
    outgoing.on("timeout", () => outgoing.destroy(new Error(`no answer of ${url} in 2 s`)));
    outgoing.on("error", reject);
    outgoing.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
