import { connect, type Socket } from "node:net";
import { standaloneFlag } from "../agent/config/flags/flag-table.ts";
import { EXEC_SOCKET } from "../agent/config/local-socket.ts";
import { ApiError } from "../agent/serve/api/api-error.ts";
import { type BackendAnswer, readAnswer } from "../agent/serve/streaming/backend.ts";
import { readRefusal } from "../agent/serve/streaming/refusal.ts";
import { REMOTE_COMMAND_PROTOCOL } from "../agent/serve/streaming/remote-command.ts";
import type { ProcessStreams } from "../cri/runtime.ts";
import { createClock } from "../host/clock.ts";
import { type Command, type GivenFlags, givenInvocation, helpFlag, readFlags, rootDirFlag } from "./command.ts";
import { runExecSession } from "./exec-session.ts";
import { describeConnectError, exitOnBrokenPipe } from "./local-agent.ts";
import { splitPositionals } from "./positional.ts";
import { withInvocation } from "./suggested-command.ts";

const command: Command = {
  name: "exec",
  synopsis: "POD [-n NAMESPACE] [-c CONTAINER] [-i] [-t] [--root-dir DIR] -- COMMAND [ARGUMENT...]",
  introduction: `Runs a command in a container of a pod on this machine, and shows its output. No shell interprets the command.

  berth exec web -- cat /etc/hosts
  berth exec web -it -- sh
`,
  flags: [
    {
      ...standaloneFlag("namespace", "string", "the namespace of the pod", { default: "default", must: "not empty" }),
      shorthand: "n",
    },
    {
      ...standaloneFlag(
        "container",
        "string",
        "the container (default: that of kubectl.kubernetes.io/default-container, else the first)",
      ),
      shorthand: "c",
    },
    { ...standaloneFlag("stdin", "bool", "pass standard input on to the command"), shorthand: "i" },
    { ...standaloneFlag("tty", "bool", "give the command a terminal; needs -i"), shorthand: "t" },
    rootDirFlag,
    helpFlag,
  ],
  closing:
    "Exit code 0: the command has succeeded. 1: no session was possible. 2: wrong arguments. 126: the program cannot be executed. 127: there is no such program. Any other: that of the command.\n",
};

/** `berth exec`. Returns the exit code of the command, 2 for wrong arguments, 1 without a session, 126 or 127 as a shell. */
export async function runExec(args: readonly string[]): Promise<number> {
  const { positionals, flags, afterDashes } = splitPositionals(args, command.flags);
  const given = readFlags(command, flags);
  if (typeof given === "number") return given;
  const [pod, ...others] = positionals;
  const [program] = afterDashes ?? [];
  if (pod === undefined) return refuse(withInvocation("which pod? berth pods lists them", givenInvocation(given)), 2);
  if (others.length > 0) return refuse(`unexpected argument ${JSON.stringify(others[0])}: the command follows --`, 2);
  if (afterDashes === undefined || program === undefined)
    return refuse("which command? It follows --, as in berth exec web -- cat /etc/hosts", 2);
  process.stdout.once("error", exitOnBrokenPipe);
  const streams = streamsFor(given);
  const path = `${given.text("root-dir")}/${EXEC_SOCKET}`;
  try {
    const answer = await requestSession(path, targetOf(pod, afterDashes, given, streams));
    if (answer.status === 101) return await runExecSession(answer.socket, answer.rest, { ...streams, program });
    const { body } = await readRefusal(answer, createClock());
    return refuse(withInvocation(body.toString().trim(), givenInvocation(given)), 1);
  } catch (error) {
    if (error instanceof ApiError) return refuse(`the agent on ${path}: ${error.message.trim()}`, 1);
    return refuse(`no agent answers on ${path}: ${describeConnectError(error)}`, 1);
  }
}

function refuse(message: string, code: number): number {
  process.stderr.write(`berth exec: ${message}\n`);
  return code;
}

/** The command gets a terminal only with `-i`, and only if this process has one. Rule: kubectl. */
function streamsFor(given: GivenFlags): ProcessStreams {
  const stdin = given.isSet("stdin");
  const wantsTerminal = stdin && given.isSet("tty");
  const tty = wantsTerminal && process.stdin.isTTY === true;
  if (wantsTerminal && !tty)
    process.stderr.write("berth exec: standard input is not a terminal, so the command gets no terminal\n");
  return { stdin, stdout: true, stderr: !tty, tty };
}

function targetOf(pod: string, cmd: readonly string[], given: GivenFlags, streams: ProcessStreams): string {
  const query = new URLSearchParams();
  for (const word of cmd) query.append("command", word);
  const names = { input: streams.stdin, output: streams.stdout, error: streams.stderr, tty: streams.tty };
  for (const [name, isSet] of Object.entries(names)) if (isSet) query.append(name, "1");
  if (given.text("container") !== "") query.append("container", given.text("container"));
  return `/exec/${encodeURIComponent(given.text("namespace"))}/${encodeURIComponent(pod)}?${query}`;
}

/** Rejects with the error of the connection, or with `ApiError` if the agent does not answer. */
async function requestSession(path: string, target: string): Promise<BackendAnswer> {
  const socket = await new Promise<Socket>((resolve, reject) => {
    const connecting = connect({ path });
    connecting.once("error", reject);
    connecting.once("connect", () => resolve(connecting));
  });
  socket.on("error", () => {
    // "close" follows.
  });
  const headers = ["Connection: Upgrade", "Upgrade: SPDY/3.1", `X-Stream-Protocol-Version: ${REMOTE_COMMAND_PROTOCOL}`];
  socket.write(`${[`POST ${target} HTTP/1.1`, "Host: berth", ...headers].join("\r\n")}\r\n\r\n`);
  return await readAnswer(socket, { clock: createClock(), signal: new AbortController().signal });
}
