import { once } from "node:events";
import { standaloneFlag } from "../agent/config/flags/flag-table.ts";
import { DEFAULT_CONTAINER } from "../agent/serve/local/default-container.ts";
import { parseDurationMs } from "../proto/kubernetes/values/duration.ts";
import { parseTime, TimeError } from "../proto/kubernetes/values/time.ts";
import { type Command, type GivenFlags, givenInvocation, helpFlag, readFlags, rootDirFlag } from "./command.ts";
import { describeConnectError, exitOnBrokenPipe, requestAgent, socketPath } from "./local-agent.ts";
import { splitPositionals } from "./positional.ts";
import { withInvocation } from "./suggested-command.ts";

const command: Command = {
  name: "logs",
  synopsis:
    "POD [-n NAMESPACE] [-c CONTAINER] [-f] [--previous] [--tail N] [--since DURATION | --since-time TIME] [--limit-bytes N] [--timestamps] [--root-dir DIR]",
  introduction: `Shows what a container of a pod on this machine has written to its standard output and error.

  berth logs web
  berth logs web -f --tail 10
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
    {
      ...standaloneFlag("follow", "bool", "also show what the container writes from now on, until it ends"),
      shorthand: "f",
    },
    { ...standaloneFlag("previous", "bool", "show the log of the instance before the current one"), shorthand: "p" },
    standaloneFlag("tail", "int", "show only the last N lines; -1: all", { default: "-1" }),
    standaloneFlag("since", "duration", "show only the lines of the last 5s, 2m or 3h; 0s: all", { default: "0s" }),
    standaloneFlag("since-time", "string", "show only the lines since this time, such as 2026-01-02T03:04:05Z"),
    standaloneFlag("limit-bytes", "int", "show at most N bytes; 0: all", { default: "0" }),
    standaloneFlag("timestamps", "bool", "begin each line with its time"),
    rootDirFlag,
    helpFlag,
  ],
  closing: "Exit code 0: the log has been shown. 1: there is none, or no agent answers. 2: wrong arguments.\n",
};

/** `berth logs`. Returns 2 for wrong arguments, 1 if there is no log or no agent responds. */
export async function runLogs(args: readonly string[]): Promise<number> {
  const { positionals, flags, afterDashes = [] } = splitPositionals(args, command.flags);
  const given = readFlags(command, flags);
  if (typeof given === "number") return given;
  const [pod, ...others] = [...positionals, ...afterDashes];
  if (pod === undefined) return refuse(withInvocation("which pod? berth pods lists them", givenInvocation(given)), 2);
  if (others.length > 0)
    return refuse(`unexpected argument ${JSON.stringify(others[0])}: -c names a container of the pod`, 2);
  const problem = problemOf(given);
  if (problem !== undefined) return refuse(problem, 2);
  process.stdout.once("error", exitOnBrokenPipe);
  const socket = socketPath(given.text("root-dir"));
  let response: Response;
  try {
    response = await requestAgent(socket, targetOf(pod, given));
  } catch (error) {
    return refuse(`no agent answers on ${socket}: ${describeConnectError(error)}`, 1);
  }
  if (!response.ok) return refuse(withInvocation(await refusalOf(response), givenInvocation(given)), 1);
  const container = response.headers.get(DEFAULT_CONTAINER);
  // As kubectl.
  if (container !== null) process.stderr.write(`Defaulted container ${container}\n`);
  try {
    for await (const piece of response.body ?? [])
      if (!process.stdout.write(piece)) await once(process.stdout, "drain");
    return 0;
  } catch {
    // An agent ends each answer, so a connection that breaks means that it has exited, or that the log cannot be read on.
    return refuse("the log is incomplete: the agent has ended, or cannot read it any more", 1);
  }
}

function refuse(message: string, code: number): number {
  process.stderr.write(`berth logs: ${message}\n`);
  return code;
}

/** What is wrong with the values of the flags, or undefined. */
function problemOf(given: GivenFlags): string | undefined {
  const limitBytes = given.text("limit-bytes");
  if (Number(limitBytes) < 0) return `--limit-bytes: found ${limitBytes}, must be at least 1, or 0 for all bytes`;
  const sinceTime = given.text("since-time");
  if (sinceTime === "") return undefined;
  if (parseDurationMs(given.text("since")) > 0) return "at most one of --since and --since-time may be used";
  try {
    parseTime(sinceTime);
    return undefined;
  } catch (error) {
    if (!(error instanceof TimeError)) throw error;
    return `--since-time: ${error.message}`;
  }
}

async function refusalOf(response: Response): Promise<string> {
  const text = (await response.text()).trim();
  // An agent that does not know the path answers this.
  return text === "not found" ? "the running agent is of an earlier release that does not support this command" : text;
}

function targetOf(pod: string, given: GivenFlags): string {
  const query = new URLSearchParams();
  for (const name of ["follow", "previous", "timestamps"]) if (given.isSet(name)) query.set(name, "true");
  if (given.text("container") !== "") query.set("container", given.text("container"));
  if (Number(given.text("tail")) >= 0) query.set("tailLines", given.text("tail"));
  if (Number(given.text("limit-bytes")) > 0) query.set("limitBytes", given.text("limit-bytes"));
  if (given.text("since-time") !== "") query.set("sinceTime", given.text("since-time"));
  const sinceMs = parseDurationMs(given.text("since"));
  if (sinceMs > 0) query.set("sinceSeconds", String(Math.ceil(sinceMs / 1000)));
  return `/logs/${encodeURIComponent(given.text("namespace"))}/${encodeURIComponent(pod)}?${query}`;
}
