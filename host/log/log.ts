import pino from "pino";
import type { LogOutput } from "./log-output.ts";

/** Fields use Kubernetes' names: `namespace`, `pod`, `uid`, `container`, `image`; errors go into `err`. */
export type LogFields = Readonly<Record<string, unknown>>;

/** The logger of all components. Never log a Secret's value, a token, an environment value or a header. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** A logger that adds these fields to every line. */
  child(fields: LogFields): Log;
}

/** A log whose level can change. */
export interface RootLog extends Log {
  /** Sets the level, also for the children that exist already. */
  setLevel(level: LogLevel): void;
}

/** What the node's API sets and reads of the log. */
export interface LogControl {
  /** Sets the klog verbosity until the agent ends. */
  setVerbosity(verbosity: number): void;
  /** For how long, in milliseconds, lines have been waiting or dropped; 0 if none is. */
  logBlockedMs(): number;
}

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface LogOptions {
  /** `json` is one object per line, for machines; `text` is for people. */
  readonly format: "json" | "text";
  readonly level: LogLevel;
  /** Receives complete lines, newline included. */
  readonly write: LogOutput["write"];
}

/**
 * Creates a logger that writes each line synchronously, so that no line is lost in a crash. The printer of text is
 * loaded only for text.
 */
export async function createLog({ format, level, write }: LogOptions): Promise<RootLog> {
  if (format === "json") return createRootLog(level, (line) => write(line, droppedLine));
  const { createTextFormat } = await import("./log-text.ts");
  const textOf = createTextFormat();
  return createRootLog(level, (line) => write(textOf(line), (count) => textOf(droppedLine(count))));
}

const LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];

/** A child of pino copies its parent's level when it is created, so that the level is compared here. */
function createRootLog(level: LogLevel, write: (line: string) => void): RootLog {
  let lowest = LEVELS.indexOf(level);
  function withLevel(log: Log): Log {
    const atLevel =
      (at: LogLevel): Log[LogLevel] =>
      (fields, message) => {
        if (LEVELS.indexOf(at) >= lowest) log[at](fields, message);
      };
    const child: Log["child"] = (fields) => withLevel(log.child(fields));
    return { debug: atLevel("debug"), info: atLevel("info"), warn: atLevel("warn"), error: atLevel("error"), child };
  }
  return {
    ...withLevel(createJsonLog("debug", write)),
    setLevel(next) {
      lowest = LEVELS.indexOf(next);
    },
  };
}

function droppedLine(count: number): string {
  let text = "";
  const log = createJsonLog("warn", (line) => {
    text = line;
  });
  log.warn(
    { lines: count },
    "dropped log lines: the log's reader did not read them in time, or they could not be written",
  );
  return text;
}

function createJsonLog(level: LogLevel, write: (line: string) => void): Log {
  const options: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { err: (error: unknown) => serializeError(error, MAX_CAUSES) },
  };
  return pino(options, { write });
}

/** The chain of causes is cut here: it may be circular. */
const MAX_CAUSES = 8;

/** An error for a log line: type, message, code and the chain of causes, without the stack. */
function serializeError(error: unknown, causesLeft: number): unknown {
  if (!(error instanceof Error)) return String(error);
  const { name, message, cause } = error;
  const code: unknown = Reflect.get(error, "code");
  return {
    type: name,
    message,
    ...(typeof code === "string" || typeof code === "number" ? { code } : {}),
    ...(cause === undefined || causesLeft === 0 ? {} : { cause: serializeError(cause, causesLeft - 1) }),
  };
}
