/** One reason why a text cannot be read as YAML. */
export interface YamlProblem {
  /** `file:line`, or the file alone when no line is known. */
  readonly where: string;
  readonly message: string;
}

/** A text is not YAML, is not accepted by Go's library, or exceeds a limit. */
export class YamlError extends Error {
  override readonly name = "YamlError";
  readonly problems: readonly YamlProblem[];
  constructor(problems: readonly YamlProblem[]) {
    super(problems.map(({ where, message }) => `${where}: ${message}`).join("; "));
    this.problems = problems;
  }
}
