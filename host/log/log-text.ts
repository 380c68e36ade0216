import { prettyFactory } from "pino-pretty";
import { escapeControlChars } from "./escape-control.ts";

/**
 * Returns a function that turns a JSON line of our log into a line for people:
 * `12:01:07.123 warn  what happened  pod=default/web err="…"`. `messageFormat` makes the whole line, because
 * pino-pretty's own has a colon after the level, a line for each field, and a prefix of `name`, `pid` and `hostname`:
 * `include` leaves it the message alone.
 */
export function createTextFormat(): (json: string) => string {
  return prettyFactory({ colorize: false, hideObject: true, include: "msg", messageFormat: textLine });
}

function textLine({ time, level, msg, ...fields }: Readonly<Record<string, unknown>>): string {
  const timeOfDay = String(time).slice("2026-01-01T".length, -"Z".length);
  const rest = Object.entries(fields).map(([name, value]) => ` ${name}=${escapeControlChars(readableValue(value))}`);
  const line = `${timeOfDay} ${String(level).padEnd(5)} ${escapeControlChars(String(msg))}`;
  return rest.length === 0 ? line : `${line} ${rest.join("")}`;
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

/** Whether one message contains the other, without the other's prefix (a name or a code): `Version: no answer`. */
function repeats(whole: string, other: string): boolean {
  const words = other.slice(other.indexOf(": ") + 1).trim();
  return words !== "" && whole.includes(words);
}
