import { parseArgs } from "node:util";
import type { AgentStatus } from "../agent/serve/local/agent-status.ts";
import { askAgent, leaveQuietly, socketBelow, whyNot } from "./local-agent.ts";
import { statusText } from "./status-text.ts";

const usage = `berth status [-o json] [--root-dir DIR]

Shows how the agent that runs on this machine does: its node, its container runtime, its cluster, and how many pods it has.

  -o, --output FORMAT   text (default) or json
      --root-dir DIR    the agent's root directory (default /var/lib/kubelet)

The exit code says whether an agent has answered, not whether all is well with it.
`;

const options = {
  output: { type: "string", short: "o", default: "text" },
  "root-dir": { type: "string", default: "/var/lib/kubelet" },
  help: { type: "boolean", short: "h", default: false },
} as const;

/** `berth status`. Exit code 2 for wrong arguments, 1 when no agent answers, or one that is too old to. */
export async function status(args: readonly string[]): Promise<number> {
  const read = readArguments(args);
  if (typeof read === "string") {
    process.stderr.write(`berth status: ${read}\n`);
    return 2;
  }
  if (read.help) {
    process.stdout.write(usage);
    return 0;
  }
  process.stdout.once("error", leaveQuietly);
  const socket = socketBelow(read["root-dir"]);
  try {
    const answer = await askAgent(socket, "/status");
    if (answer.status === 404) {
      process.stderr.write("berth status: the agent that runs is of an earlier release, which cannot say\n");
      return 1;
    }
    if (!answer.ok) throw new Error(`it answered ${answer.status}`);
    const told = (await answer.json()) as AgentStatus;
    process.stdout.write(read.output === "json" ? `${JSON.stringify(told)}\n` : statusText(told));
    return 0;
  } catch (error) {
    process.stderr.write(`berth status: no agent answers on ${socket}: ${whyNot(error)}\n`);
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
