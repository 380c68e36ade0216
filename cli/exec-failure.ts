/** What `berth exec` says and returns for a program that could not be executed. */
export interface ExecFailure {
  readonly text: string;
  readonly exitCode: number;
}

/** What runc and crun say of a program that cannot be executed; the last group is the cause. */
const FAILURES: readonly RegExp[] = [
  /\bexec:? (?:"[^"]*"|[^\s"]+): (?:stat [^:]+: )?(executable file not found in \$PATH|no such file or directory|permission denied|exec format error|is a directory)/,
  /(executable file `[^`]*` not found(?: in \$PATH)?)/,
];

/**
 * The text for a session that ended before its program ran, by the runtime's message, and the exit code: that of a shell, 127
 * without such a program and 126 if it cannot be executed, and 1 for any other failure.
 */
export function describeExecFailure(message: string, program: string): ExecFailure {
  const cause = FAILURES.map((pattern) => pattern.exec(message)?.[1]).find((found) => found !== undefined);
  if (cause === undefined) return { text: message, exitCode: 1 };
  const text = `cannot execute ${JSON.stringify(program)} in the container: ${cause}`;
  return { text, exitCode: /not found|no such file/.test(cause) ? 127 : 126 };
}
