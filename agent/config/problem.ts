/** One error in the flags or in a configuration file; {@link describeProblem} formats it. */
export interface Problem {
  /** The flag, or the file with its line where known. */
  readonly where: string;
  /** The path of the field (`logging.options.json`), or "" for the whole file. */
  readonly field: string;
  /** What was found and what was expected. */
  readonly message: string;
}

/** Formats a problem as one line: `file:line: field: message`. */
export function describeProblem({ where, field, message }: Problem): string {
  const line = field === "" ? `${where}: ${message}` : `${where}: ${field}: ${message}`;
  return line.replaceAll(/[\r\n]+/g, " ");
}

/** The flags or the configuration are invalid. The command prints each problem and exits with code 2. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(describeProblem).join("\n"));
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** The reason of a failed system call, as one short line. */
export function describeCause(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.replaceAll(/\s+/g, " ").slice(0, 200);
}
