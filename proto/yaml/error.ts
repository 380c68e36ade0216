/** One thing that keeps a text from being read as YAML. */
export interface YamlProblem {
  /** `file:line`, or the file alone where no line is to blame. */
  readonly where: string;
  readonly message: string;
}

/** A text that is not YAML, or not such as Go's library reads, or beyond a bound. */
export class YamlError extends Error {
  override readonly name = "YamlError";
  readonly problems: readonly YamlProblem[];
  constructor(problems: readonly YamlProblem[]) {
    super(problems.map(({ where, message }) => `${where}: ${message}`).join("; "));
    this.problems = problems;
  }
}
