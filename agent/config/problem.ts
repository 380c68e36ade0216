/** One thing that is wrong with the flags or with a configuration file; `describeProblem` makes it one line. */
export interface Problem {
  /** The file (with its line, where one is known) or the flag that said it. */
  readonly where: string;
  /** The field's path (`logging.options.json`), or "" where the whole file is meant. */
  readonly field: string;
  /** What is wrong, with the found value, and what would be right. */
  readonly message: string;
}

/** `file:line: field: message`, always a single line. */
export function describeProblem({ where, field, message }: Problem): string {
  const line = field === "" ? `${where}: ${message}` : `${where}: ${field}: ${message}`;
  return line.replaceAll(/[\r\n]+/g, " ");
}

/** The flags or the configuration cannot be used. Whoever catches it prints each problem and exits with code 2. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super(problems.map(describeProblem).join("\n"));
    this.name = "ConfigError";
    this.problems = problems;
  }
}

/** Why an outside call failed, as one short line. */
export function describeCause(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message.replaceAll(/\s+/g, " ").slice(0, 200);
}
