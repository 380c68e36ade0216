import { resolve } from "node:path/posix";
import { type GivenFlag, splitCommandLine } from "../agent/config/flags/command-line.ts";
import { flagGroups } from "../agent/config/flags/flag-table.ts";
import type { AgentCommandLine } from "../agent/serve/local/agent-command-line.ts";
import { requestAgent, socketPath } from "./local-agent.ts";

/** The agent that answers below a root directory, and the flags that it was started with. */
export interface RunningAgent {
  readonly pid: number;
  /** In milliseconds since the epoch. */
  readonly startedAt: number;
  readonly flags: readonly GivenFlag[];
}

/** The flags whose value is a path; a relative one starts from the working directory. */
const pathFlags: ReadonlySet<string> = new Set([
  "config",
  "config-dir",
  "root-dir",
  "kubeconfig",
  "image-credential-provider-config",
  "image-credential-provider-bin-dir",
  "network-delegate-dir",
  "pod-manifest-path",
  "resolv-conf",
]);

/**
 * Asks the agent on this root directory how it was started. Undefined if none answers, or one of an earlier release that does
 * not say it.
 */
export async function findRunningAgent(rootDir: string): Promise<RunningAgent | undefined> {
  // doctor's check of the agent shows why it does not answer; berth cni list then knows the usual folder alone.
  const response = await requestAgent(socketPath(rootDir), "/command-line").catch(() => undefined);
  if (response?.ok !== true) return undefined;
  const { pid, startedAt, argv, workingDirectory } = (await response.json()) as AgentCommandLine;
  const { given } = splitCommandLine(argv, flagGroups);
  const flags = given.map(({ flag, text }) => ({
    flag,
    text: pathFlags.has(flag.name) && text !== "" ? resolve(workingDirectory, text) : text,
  }));
  return { pid, startedAt: Date.parse(startedAt), flags };
}

/** Each of them says how to reach the API server, so one given here replaces the agent's other one. */
const clusterFlags: readonly string[] = ["kubeconfig", "in-cluster"];

/** The agent's flags, except those that the given ones replace, and the given ones. */
export function withGivenFlags(agent: RunningAgent, given: readonly GivenFlag[]): readonly GivenFlag[] {
  const names = new Set(given.map(({ flag }) => flag.name));
  const isOfCluster = clusterFlags.some((name) => names.has(name));
  const isReplaced = (name: string) => names.has(name) || (isOfCluster && clusterFlags.includes(name));
  return [...agent.flags.filter(({ flag }) => !isReplaced(flag.name)), ...given];
}
