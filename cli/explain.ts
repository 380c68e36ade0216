import { standaloneFlag } from "../agent/config/flags/flag-table.ts";
import type { ExplainedCause, PodExplanation } from "../agent/serve/local/explain/pod-explanation.ts";
import { availableCommands, withAvailableCommands } from "./available-commands.ts";
import { type Command, givenInvocation, helpFlag, outputFlag, readFlags, rootDirFlag } from "./command.ts";
import { formatExplanation } from "./explanation-text.ts";
import { describeConnectError, exitOnBrokenPipe, requestAgent, socketPath } from "./local-agent.ts";
import { splitPositionals } from "./positional.ts";
import { type Invocation, withInvocation } from "./suggested-command.ts";
import { columnsOf } from "./terminal-text.ts";

const command: Command = {
  name: "explain",
  synopsis: "POD [-n NAMESPACE] [-o json] [--root-dir DIR]",
  introduction: `Shows how a pod of this machine has started, step by step, or why it does not start.
For a pod that does not start or is not ready: the cause, when the agent tries again, what cures it, and which commands to run next.

  berth explain web
  berth explain coredns-5d4c -n kube-system
`,
  flags: [
    {
      ...standaloneFlag("namespace", "string", "the namespace of the pod", { default: "default", must: "not empty" }),
      shorthand: "n",
    },
    outputFlag("text", "json"),
    rootDirFlag,
    helpFlag,
  ],
  closing: "Exit code 0: the agent has answered. 1: no agent answers, or it has no such pod. 2: wrong arguments.\n",
};

/** `berth explain`. Exit code 2 for wrong arguments, 1 if no agent answers or it has no such pod. */
export async function runExplain(args: readonly string[]): Promise<number> {
  const { positionals, flags, afterDashes = [] } = splitPositionals(args, command.flags);
  const given = readFlags(command, flags);
  if (typeof given === "number") return given;
  const invocation = givenInvocation(given);
  const [name, ...others] = [...positionals, ...afterDashes];
  if (name === undefined) return refuse(withInvocation("which pod? berth pods lists them", invocation), 2);
  if (others.length > 0) return refuse(`unexpected argument ${JSON.stringify(others[0])}: one pod at a time`, 2);
  process.stdout.once("error", exitOnBrokenPipe);
  const namespace = given.text("namespace");
  const socket = socketPath(given.text("root-dir"));
  try {
    const response = await requestAgent(socket, `/explain?${new URLSearchParams({ namespace, name })}`);
    if (response.status === 404) {
      const text = withAvailableCommands((await response.text()).trim(), commandOptions());
      return refuse(withInvocation(text, invocation), 1);
    }
    if (!response.ok) return refuse(`the agent on ${socket} responded with HTTP ${response.status}`, 1);
    const explanation = withCommands((await response.json()) as PodExplanation, invocation);
    const isText = given.text("output") === "text";
    const text = () => formatExplanation(explanation, Date.now(), columnsOf(process.stdout));
    process.stdout.write(isText ? text() : `${JSON.stringify(explanation)}\n`);
    return 0;
  } catch (error) {
    return refuse(`no agent answers on ${socket}: ${describeConnectError(error)}`, 1);
  }
}

function withCommands(explanation: PodExplanation, invocation: Invocation): PodExplanation {
  const { cause, correction } = explanation;
  const own = <Part extends Pick<ExplainedCause, "cure" | "commands">>(part: Part): Part => {
    const commands = availableCommands(part.commands, commandOptions()).map((each) => withInvocation(each, invocation));
    return { ...part, cure: withInvocation(part.cure, invocation), commands };
  };
  return { ...explanation, ...(correction && { correction: own(correction) }), ...(cause && { cause: own(cause) }) };
}

const commandOptions = () => ({ which: Bun.which, editor: process.env["EDITOR"] });

function refuse(message: string, code: number): number {
  process.stderr.write(`berth explain: ${message}\n`);
  return code;
}
