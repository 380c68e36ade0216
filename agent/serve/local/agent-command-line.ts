/** The JSON of `GET /command-line`: how the running agent was started. `berth doctor` reads the agent's configuration by it. */
export interface AgentCommandLine {
  readonly pid: number;
  /** RFC 3339. */
  readonly startedAt: string;
  /** The arguments without the program and its command. They may contain a secret; only root may open the socket. */
  readonly argv: readonly string[];
  /** The absolute path that relative paths of the arguments start from. */
  readonly workingDirectory: string;
}
