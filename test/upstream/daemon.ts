import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { basename } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../bed/poll-until.ts";

/** A program that runs until it is ended, with its output at the end of a file. */
export interface Daemon {
  readonly pid: number;
  /** When it was begun, in milliseconds since the epoch. */
  readonly startedAt: number;
  readonly logFile: string;
  readonly isRunning: boolean;
  /** Resolves when it has ended, by whatever. */
  readonly ended: Promise<void>;
  /** Sends the signal and returns once it has ended. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** Starts `program`. Returns at once: a program that cannot be started shows as a daemon that has ended. */
export function startDaemon(program: string, args: readonly string[], logFile: string): Daemon {
  const log = openSync(logFile, "a");
  const startedAt = Date.now();
  // A group of its own: Ctrl-C in a terminal goes to us alone, and we end things in order.
  const child = spawn(program, [...args], { detached: true, stdio: ["ignore", log, log] });
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

/** Starts a daemon again whenever it ends by itself, as a cluster does with its own. Ended by the daemon it returns. */
export function keepRunning(first: Daemon, start: () => Daemon): Pick<Daemon, "end"> {
  let daemon = first;
  let isWanted = true;
  const follow = async () => {
    for (;;) {
      await daemon.ended;
      if (isWanted) await pause(500);
      if (!isWanted) return;
      daemon = start();
    }
  };
  void follow();
  return {
    async end(signal) {
      isWanted = false;
      await daemon.end(signal);
    },
  };
}

/** Waits until GET `url` is answered with 200. Throws with the last lines of the log if that takes too long or it ends. */
export async function answers(daemon: Daemon, url: string, tls: TlsOptions = {}, timeoutMs = 60_000): Promise<void> {
  const name = basename(daemon.logFile, ".log");
  try {
    await until(`an answer of ${url}`, timeoutMs, async () => {
      if (!daemon.isRunning) throw new Error(`${name} has ended`);
      return await ask(url, { tls }).then(
        ({ status }) => status === 200,
        () => false,
      );
    });
  } catch (cause) {
    const lines = (await readFile(daemon.logFile, "utf8").catch(() => "")).trimEnd().split("\n");
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

/** One request on a connection of its own, by no proxy. */
export async function ask(
  url: string,
  { tls = {}, body }: { readonly tls?: TlsOptions; readonly body?: unknown } = {},
): Promise<{ readonly status: number; readonly text: string }> {
  const request = url.startsWith("https:") ? httpsRequest : httpRequest;
  return await new Promise((resolve, reject) => {
    const method = body === undefined ? "GET" : "POST";
    const sent = request(url, { ...tls, method, agent: false, timeout: 2000 }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => (text += chunk));
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
      answer.on("error", reject);
    });
    sent.on("timeout", () => sent.destroy(new Error(`no answer of ${url} in 2 s`)));
    sent.on("error", reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
