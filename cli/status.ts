import type { AgentStatus } from "../agent/serve/local/agent-status.ts";
import { type Command, givenInvocation, helpFlag, outputFlag, readFlags, rootDirFlag } from "./command.ts";
import { describeConnectError, exitOnBrokenPipe, requestAgent, socketPath } from "./local-agent.ts";
import { formatStatus } from "./status-text.ts";
import { withInvocation } from "./suggested-command.ts";
import { columnsOf } from "./terminal-text.ts";

const command: Command = {
  name: "status",
  synopsis: "[-o json] [--root-dir DIR]",
  introduction:
    "Shows the state of the agent on this machine: its node, its container runtime, its cluster and its pods.\n",
  flags: [outputFlag("text", "json"), rootDirFlag, helpFlag],
  closing: "Exit code 0: the agent has answered, healthy or not. 1: no agent answers. 2: wrong arguments.\n",
};

/** `berth status`. Exit code 2 for wrong arguments, 1 if no agent responds or it is too old for this command. */
export async function runStatus(args: readonly string[]): Promise<number> {
  const given = readFlags(command, args);
  if (typeof given === "number") return given;
  process.stdout.once("error", exitOnBrokenPipe);
  const socket = socketPath(given.text("root-dir"));
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
    const podsCommand = withInvocation("berth pods", givenInvocation(given));
    const agentStatus = (await response.json()) as AgentStatus;
    process.stdout.write(
      given.text("output") === "json"
        ? `${JSON.stringify(agentStatus)}\n`
        : formatStatus(agentStatus, Date.now(), columnsOf(process.stdout), podsCommand),
    );
    return 0;
  } catch (error) {
    process.stderr.write(`berth status: no agent answers on ${socket}: ${describeConnectError(error)}\n`);
    return 1;
  }
}
