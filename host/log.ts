import pino from "pino";
import { inOneLine } from "./escape-control.ts";

/** Fields use Kubernetes' names: `namespace`, `pod`, `uid`, `container`, `image`; errors go into `err`. */
export type LogFields = Readonly<Record<string, unknown>>;

/** What every room may log with. Never hand it a Secret's value, a token, an environment value or a header. */
export interface Log {
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  /** A log whose every line carries these fields too. */
  child(fields: LogFields): Log;
}

export interface LogSettings {
  /** `json` is one object a line, for machines; `text` is for people. */
  readonly format: "json" | "text";
  readonly level: "debug" | "info" | "warn" | "error";
  /** Takes finished lines, newline included. */
  readonly write: (line: string) => void;
}

/** A log that writes line by line, at once: what was logged before a crash has been written. */
export function createLog({ format, level, write }: LogSettings): Log {
  if (format === "text") return createTextLog(level, write, {});
  const options: pino.LoggerOptions = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    serializers: { err: (error: unknown) => serializeError(error, MOST_CAUSES) },
  };
  return pino(options, { write });
}

const LEVELS = ["debug", "info", "warn", "error"] as const;

/** For people. It does not go through pino, whose lines are JSON that would have to be read again: a tenth of a pod's start. */
function createTextLog(level: LogSettings["level"], write: LogSettings["write"], inherited: LogFields): Log {
  const lowest = LEVELS.indexOf(level);
  const at = (own: LogSettings["level"]) => (fields: LogFields, message: string) => {
    if (LEVELS.indexOf(own) >= lowest) write(textLine(own, { ...inherited, ...fields }, message));
  };
  return {
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => createTextLog(level, write, { ...inherited, ...fields }),
  };
}

/** Lines to standard error, written synchronously; a full pipe is waited for, a closed one ends nothing. */
export function stderrLines(): (line: string) => void {
  const destination = pino.destination({ dest: 2, sync: true });
  destination.on("error", () => {
    // Whoever read our log is gone. The node's pods do not depend on being logged.
  });
  return (line) => void destination.write(line);
}

/** An error that is its own cause, by whatever way, would be told without an end. */
const MOST_CAUSES = 8;

/** An error as a line can carry it: the chain of causes in words, the codes that our errors have, no stack. */
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

/** `12:01:07.123 warn  what happened  pod=default/web err="…"` */
function textLine(level: string, fields: LogFields, message: string): string {
  const time = new Date().toISOString().slice(11, 23);
  const rest = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}=${readableField(name, value)}`)
    .join("");
  return `${time} ${level.padEnd(5)} ${inOneLine(message)}${rest === "" ? "" : ` ${rest}`}\n`;
}

/** A value that cannot be told (it holds itself, or throws when asked) costs the line nothing else. */
function readableField(name: string, value: unknown): string {
  try {
    return inOneLine(readableValue(name === "err" ? serializeError(value, MOST_CAUSES) : value));
  } catch (error) {
    return `<cannot be told: ${inOneLine(error instanceof Error ? error.message : typeof error)}>`;
  }
}

function readableValue(value: unknown): string {
  if (typeof value === "string") return /^[\w./:@-]+$/.test(value) ? value : JSON.stringify(value);
  if (typeof value === "object" && value !== null && "message" in value) return JSON.stringify(errorText(value));
  return JSON.stringify(value) ?? typeof value;
}

function errorText(error: object): string {
  const message = String(Reflect.get(error, "message"));
  const cause: unknown = Reflect.get(error, "cause");
  if (typeof cause !== "object" || cause === null) return message;
  const below = errorText(cause);
  return repeats(message, below) || repeats(below, message) ? message : `${message}: ${below}`;
}

/** True where one error has the words of the other, which may stand behind a name or a code of its own: `Version: no answer`. */
function repeats(whole: string, other: string): boolean {
  const words = other.slice(other.indexOf(": ") + 1).trim();
  return words !== "" && whole.includes(words);
}
