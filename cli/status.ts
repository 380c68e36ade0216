import { parseArgs } from "node:util";
import type { AgentStatus } from "../agent/serve/local/agent-status.ts";
import { describeConnectError, exitOnBrokenPipe, requestAgent, socketPath } from "./local-agent.ts";
import { formatStatus } from "./status-text.ts";

const usage = `berth status [-o json] [--root-dir DIR]

Shows the state of the agent on this machine: its node, its container runtime, its cluster and its pods.

  -o, --output FORMAT   text (default) or json
      --root-dir DIR    the agent's root directory (default /var/lib/kubelet)

The exit code shows whether an agent responds, not whether it is healthy.
`;

const options = {
  output: { type: "string", short: "o", default: "text" },
  "root-dir": { type: "string", default: "/var/lib/kubelet" },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** `berth status`. Exit code 2 for wrong arguments, 1 if no agent responds or it is too old for this command. */
export async function runStatus(args: readonly string[]): Promise<number> {
  const parsed = readArguments(args);
  if (typeof parsed === "string") {
    process.stderr.write(`berth status: ${parsed}\n`);
    return 2;
  }
  if (parsed.help) {
    process.stdout.write(usage);
    return 0;
  }
  process.stdout.once("error", exitOnBrokenPipe);
  const socket = socketPath(parsed["root-dir"]);
  try {
    const response = await requestAgent(socket, "/status");
    if (response.status === 404) {
      process.stderr.write(
        "berth status: the running agent is of an earlier release that does not support this command\n",
      );
      return 1;
    }
    if (!response.ok) {
      process.stderr.write(`berth status: the agent on ${socket} responded with HTTP ${response.status}\n`);
      return 1;
    }
    const agentStatus = (await response.json()) as AgentStatus;
    process.stdout.write(parsed.output === "json" ? `${JSON.stringify(agentStatus)}\n` : formatStatus(agentStatus));
    return 0;
  } catch (error) {
    process.stderr.write(`berth status: no agent answers on ${socket}: ${describeConnectError(error)}\n`);
    return 1;
  }
}

function readArguments(args: readonly string[]) {
  try {
    const { values } = parseArgs({ args: [...args], options });
    return ["text", "json"].includes(values.output) ? values : `-o takes text or json, found ${values.output}`;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
