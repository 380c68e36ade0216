import { join, resolve } from "node:path/posix";
import type { GivenFlag } from "../agent/config/flags/command-line.ts";
import { flagGroups, standaloneFlag } from "../agent/config/flags/flag-table.ts";
import { loadConfig } from "../agent/config/load.ts";
import { ConfigError, describeProblem } from "../agent/config/problem.ts";
import { type Clock, createClock } from "../host/clock.ts";
import { createFiles } from "../host/fs/files.ts";
import { createLog } from "../host/log/log.ts";
import { createProc } from "../host/proc.ts";
import { type Command, helpFlag, invocationOf, outputFlag, readFlags } from "./command.ts";
import type { CheckedSettings, Finding } from "./doctor/finding.ts";
import { findingsOf } from "./doctor/findings.ts";
import { readInventory } from "./doctor/inventory.ts";
import { type MachineFactsOptions, machineReaders } from "./doctor/machine-facts.ts";
import { readAll } from "./doctor/reading.ts";
import { reportOf, reportText } from "./doctor/report.ts";
import { exitOnBrokenPipe } from "./local-agent.ts";
import { findRunningAgent, withGivenFlags } from "./running-agent.ts";
import { type Invocation, withInvocation } from "./suggested-command.ts";
import { columnsOf } from "./terminal-text.ts";

const shownFlags = ["config", "kubeconfig", "root-dir", "container-runtime-endpoint"];

const command: Command = {
  name: "doctor",
  synopsis: "[-o json] [the flags of berth run]",
  introduction: `Shows what this machine is, and checks whether an agent can run pods on it. Each finding that is not "ok" has a cure.
Changes nothing. Where an agent runs (--root-dir), it checks the configuration of that agent; flags given here replace the agent's.
Elsewhere give it the flags of berth run, so that it checks what the agent would use:

  berth doctor --config /var/lib/kubelet/config.yaml --kubeconfig /etc/kubernetes/kubelet.conf
`,
  flags: [
    outputFlag("text", "json"),
    standaloneFlag("inventory", "bool", "print only board, disks and temperature, as JSON"),
    helpFlag,
  ],
  passedOn: {
    all: flagGroups,
    shown: {
      title: "The most important flags of berth run",
      flags: flagGroups.flatMap(({ flags }) => flags.filter(({ name }) => shownFlags.includes(name))),
    },
  },
  closing: `berth run --help lists all flags of the agent.
Exit code 0: the agent can run, perhaps with warnings. 1: something stands in its way. 2: wrong arguments.
`,
};

/** How long one fact may take to read: a hanging disk or runtime is a finding. */
const LIMIT_MS = 10_000;

/** For each request to the runtime and to the API server, so that a hanging one is reported as such. */
const REQUEST_TIMEOUT_MS = 4_000;

const MAX_COLUMNS = 120;

/** `berth doctor`. Exit code 1 if there is a problem, 2 for wrong arguments. */
export async function runDoctor(args: readonly string[]): Promise<number> {
  const own = readFlags(command, args);
  if (typeof own === "number") return own;
  if (own.isSet("inventory")) return await print(`${JSON.stringify(await readInventory())}\n`, 0);
  const clock = createClock();
  const settings = await loadSettings(own.passedOn, clock);
  if (!("config" in settings)) {
    for (const line of settings.refusals) process.stderr.write(`berth doctor: ${line}\n`);
    return 2;
  }
  const facts = await readAll(machineReaders(await readerOptions(settings, clock)), { clock, limitMs: LIMIT_MS });
  const invocation = invocationOf(settings.config.rootDir);
  const findings = findingsOf(facts, settings).map((finding) => withCommandsFor(invocation, finding));
  const report = reportOf(facts, findings);
  // Whole lines into a pipe, for grep.
  const columns = process.stdout.isTTY ? Math.min(columnsOf(process.stdout), MAX_COLUMNS) : Number.POSITIVE_INFINITY;
  const text =
    own.text("output") === "json"
      ? `${JSON.stringify(report)}\n`
      : reportText(report, columns, withInvocation("berth doctor", invocation));
  return await print(text, report.ok ? 0 : 1);
}

/** The commands in a finding ask the same agent as this one. */
function withCommandsFor(invocation: Invocation, { what, cure, ...finding }: Finding): Finding {
  const own = (text: string) => withInvocation(text, invocation);
  return { ...finding, what: own(what), ...(cure !== undefined && { cure: own(cure) }) };
}

type Loaded = CheckedSettings | { readonly refusals: readonly string[] };

/** The configuration that the agent would use. Refuses wrong flags; errors in a file become findings. */
async function loadSettings(given: readonly GivenFlag[], clock: Clock): Promise<Loaded> {
  const { settings } = await readAll({ settings: () => readSettings(given) }, { clock, limitMs: LIMIT_MS });
  if ("value" in settings) return settings.value;
  return { refusals: [`the configuration cannot be read: ${settings.problem}`] };
}

async function readSettings(own: readonly GivenFlag[]): Promise<Loaded> {
  const agent = await findRunningAgent(resolve(process.cwd(), textOf(own, "root-dir") ?? DEFAULT_ROOT_DIR));
  if (agent === undefined) return await readFlagSettings(own);
  const replaced = [...new Set(own.map(({ flag }) => flag.name))].filter((name) => name !== "root-dir");
  const read = await readFlagSettings(withGivenFlags(agent, own));
  return "refusals" in read ? read : { ...read, agent: { ...agent, replaced } };
}

const DEFAULT_ROOT_DIR = "/var/lib/kubelet";

const textOf = (given: readonly GivenFlag[], name: string) => given.findLast(({ flag }) => flag.name === name)?.text;

async function readFlagSettings(given: readonly GivenFlag[]): Promise<Loaded> {
  const file = textOf(given, "config") ?? "";
  const configPath = file === "" ? undefined : resolve(process.cwd(), file);
  const loaded = await load(given);
  if (!("problems" in loaded)) return { ...loaded, configPath, problems: [] };
  const refusals = loaded.problems;
  const ofFiles = ["config", "config-dir"];
  const flags = given.filter(({ flag }) => !ofFiles.includes(flag.name));
  if (flags.length === given.length) return { refusals };
  // Without its files the configuration is valid: then the files are wrong, and not the flags.
  const rest = await load(flags);
  return "problems" in rest ? { refusals } : { ...rest, configPath, problems: refusals };
}

type Read = Pick<CheckedSettings, "config" | "kubelet" | "warnings"> | Pick<CheckedSettings, "problems">;

async function load(given: readonly GivenFlag[]): Promise<Read> {
  const argv = given.map(({ flag, text }) => `--${flag.name}=${text}`);
  try {
    const files = createFiles("/");
    const workingDirectory = process.cwd();
    const loaded = await loadConfig({ argv, files, workingDirectory, hostname: createProc().hostname() });
    if (loaded.kind !== "config") return { problems: ["--version is a flag of berth run"] };
    return loaded;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { problems: error.problems.map(describeProblem) };
  }
}

async function readerOptions(
  { config, kubelet, configPath }: CheckedSettings,
  clock: Clock,
): Promise<MachineFactsOptions> {
  const isCompiled = import.meta.path.startsWith("/$bunfs/");
  return {
    config,
    kubelet,
    configPath,
    berth: isCompiled ? ["/proc/self/exe"] : [process.execPath, join(import.meta.dirname, "main.ts")],
    files: createFiles("/"),
    clock,
    // The findings say what the log of the runtime's client would.
    log: await createLog({ format: "json", level: "error", write: () => {} }),
    requestTimeoutMs: REQUEST_TIMEOUT_MS,
  };
}

/** Resolves when all of the text was written: the caller then ends the process, whatever still hangs in it. */
async function print(text: string, exitCode: number): Promise<number> {
  process.stdout.once("error", exitOnBrokenPipe);
  await new Promise<void>((done) => process.stdout.write(text, () => done()));
  return exitCode;
}
