import type { Log, LogFields } from "../../host/log.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";

/** A log that is kept: each line with its level, its message and what went along. */
export class FakeLog implements Log {
  readonly lines: { readonly level: LogLevel; readonly message: string; readonly fields: LogFields }[] = [];

  debug = (fields: LogFields, message: string): void => this.#keep("debug", fields, message);
  info = (fields: LogFields, message: string): void => this.#keep("info", fields, message);
  warn = (fields: LogFields, message: string): void => this.#keep("warn", fields, message);
  error = (fields: LogFields, message: string): void => this.#keep("error", fields, message);
  child = (): Log => this;

  /** `warn: the sentence`, all but debug, and forgets them. */
  told(): readonly string[] {
    return this.lines
      .splice(0)
      .filter(({ level }) => level !== "debug")
      .map(({ level, message }) => `${level}: ${message}`);
  }

  #keep(level: LogLevel, fields: LogFields, message: string): void {
    this.lines.push({ level, message, fields });
  }
}
