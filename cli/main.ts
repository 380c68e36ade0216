import { basename } from "node:path/posix";
import { FILE_CALL } from "../host/fs/file-call.ts";
import { joinWithAnd } from "../proto/join-with-and.ts";
import { nearestName } from "../proto/nearest-name.ts";
import { reexecute } from "./reexecute.ts";
import type { Program } from "./run.ts";
import { kubeletVersionLine, kubeletVersionRaw, versionLine } from "./version.ts";

const commands: Readonly<Record<string, string>> = {
  run: "runs the agent; takes the kubelet's flags",
  pods: "shows the pods of the running agent, why they are not ready, and what their volumes use",
  explain: "shows how a pod has started, or why it does not start and what cures it",
  status: "shows the state of the running agent: node, runtime, cluster, pods",
  logs: "shows what a container of a pod has written",
  exec: "runs a command in a container of a pod, on a terminal with -it",
  cni: "runs the CNI networks of this machine by hand, and makes the agent execute those of pods",
  doctor: "shows what this machine is, and what keeps an agent from running on it",
  version: "shows the release",
};

const usage = `berth COMMAND [flags]

Berth is a Kubernetes node agent.

Commands:
${Object.entries(commands)
  .map(([name, what]) => `  berth ${name.padEnd(7)}  ${what}\n`)
  .join("")}
berth COMMAND --help lists the flags of a command. Started under the name kubelet, it takes the flags of berth run directly.
`;

/**
 * Runs a command and returns its exit code. Everything but `version` is loaded on demand, which keeps the start fast
 * and small.
 */
async function main(name: string, args: readonly string[]): Promise<number> {
  if (name === "kubelet") return await run(args, kubelet);
  if (name === "berth-cni") return await (await import("./delegate.ts")).runCniDelegate(args);
  const [command, ...rest] = args;
  switch (command) {
    case "run":
      return await run(rest, berthRun);
    case "pods":
      return await (await import("./pods.ts")).runPods(rest);
    case "explain":
      return await (await import("./explain.ts")).runExplain(rest);
    case "status":
      return await (await import("./status.ts")).runStatus(rest);
    case "logs":
      return await (await import("./logs.ts")).runLogs(rest);
    case "exec":
      // An open standard input must not keep the process alive.
      return process.exit(await (await import("./exec.ts")).runExec(rest));
    case "cni":
      return await (await import("./cni.ts")).runCni(rest);
    case "doctor":
      // With Bun's default threads a hanging disk would delay the reads of other disks. Nothing else depends on it.
      reexecute();
      // A read that hangs must not keep the process alive.
      return process.exit(await (await import("./doctor.ts")).runDoctor(rest));
    case FILE_CALL:
      // A change of a volume's group takes all threads.
      reexecute();
      return await (await import("./file-call.ts")).runFileCall(rest);
    case "version":
    case "--version":
      if (rest.length > 0) return (await import("./print-version.ts")).printVersion(rest);
      process.stdout.write(versionLine());
      return 0;
    case "help":
      if (rest[0] !== undefined && Object.hasOwn(commands, rest[0])) return await main(name, [rest[0], "--help"]);
      return rest[0] === undefined ? await printUsage() : await refuse(rest[0]);
    case undefined:
    case "--help":
    case "-h":
      return await printUsage();
    default:
      return await refuse(command);
  }
}

const berthRun: Program = { name: "berth run", version: { line: versionLine, raw: versionLine } };
const kubelet: Program = { name: "kubelet", version: { line: kubeletVersionLine, raw: kubeletVersionRaw } };

async function printUsage(): Promise<number> {
  process.stdout.write(await asCalled(usage));
  return 0;
}

/** The text with the name by which the user has called this program. */
async function asCalled(text: string): Promise<string> {
  const [{ ownProgramName }, { withProgram }] = await Promise.all([
    import("./program-name.ts"),
    import("./suggested-command.ts"),
  ]);
  return withProgram(text, ownProgramName());
}

const LIST_COMMANDS = "berth --help lists the commands";

/** What users of kubectl, crictl and systemctl try, and what to use instead. */
const hintsByCommand: ReadonlyMap<string, string> = new Map([
  ["describe", `did you mean berth explain? ${LIST_COMMANDS}`],
  ...["get", "ps"].map((name) => [name, `did you mean berth pods? ${LIST_COMMANDS}`] as const),
  ["start", `did you mean berth run? ${LIST_COMMANDS}`],
]);

async function refuse(command: string): Promise<number> {
  process.stderr.write(`berth: ${await asCalled(whyRefused(command))}\n`);
  return 2;
}

function whyRefused(command: string): string {
  const names = Object.keys(commands);
  const list = `the commands are ${joinWithAnd(names)}`;
  if (command.startsWith("-")) return `${JSON.stringify(command)}: a flag follows its command; ${list}`;
  const what = `unknown command ${JSON.stringify(command)}`;
  const nearest = nearestName(command, names);
  if (nearest !== undefined) return `${what}, did you mean berth ${nearest}? ${LIST_COMMANDS}`;
  const hint = hintsByCommand.get(command);
  return hint === undefined ? `${what}; ${list}` : `${what}: ${hint}`;
}

async function run(args: readonly string[], program: Program): Promise<number> {
  const problem = reexecute();
  const called = { ...program, name: await asCalled(program.name) };
  const code = await (await import("./run.ts")).run(args, called, problem === undefined ? [] : [problem]);
  // A hanging call must not keep the process alive: its instance lock would block the next agent.
  process.exit(code);
}

process.exitCode = await main(basename(process.argv0), process.argv.slice(2));
