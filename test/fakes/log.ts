import type { Log, LogFields } from "../../host/log/log.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";

/** A log that keeps every line with its level, message and fields. */
export class FakeLog implements Log {
  readonly lines: { readonly level: LogLevel; readonly message: string; readonly fields: LogFields }[] = [];

  debug = (fields: LogFields, message: string): void => this.#record("debug", fields, message);
  info = (fields: LogFields, message: string): void => this.#record("info", fields, message);
  warn = (fields: LogFields, message: string): void => this.#record("warn", fields, message);
  error = (fields: LogFields, message: string): void => this.#record("error", fields, message);
  child = (): Log => this;

  /** Returns and clears the lines, except debug lines, as `warn: the message`. */
  takeLines(): readonly string[] {
    return this.lines
      .splice(0)
      .filter(({ level }) => level !== "debug")
      .map(({ level, message }) => `${level}: ${message}`);
  }

  #record(level: LogLevel, fields: LogFields, message: string): void {
    this.lines.push({ level, message, fields });
  }
}
