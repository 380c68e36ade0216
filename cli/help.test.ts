import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { type CommandLines, type CommandOutput, startCommandLines } from "../test/command-lines.ts";
import { cniVerbs } from "./cni/settings.ts";
import { verbHelp } from "./cni/verb-help.ts";

const program = join(import.meta.dirname, "main.ts");

let lines: CommandLines;
beforeAll(() => {
  lines = startCommandLines();
});
afterAll(() => lines.stop());

const berth = (...args: readonly string[]) => lines.run(args);

/** Runs berth in a process of its own. */
async function runProcess(args: readonly string[]): Promise<CommandOutput> {
  const child = Bun.spawn([process.execPath, program, ...args], { stdout: "pipe", stderr: "pipe" });
  const [stdout, stderr, exitCode] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return { stdout, stderr, exitCode };
}

const commands = ["run", "pods", "explain", "status", "logs", "exec", "cni", "doctor", "version"];

test("berth --help lists every command, and berth help COMMAND is its help", async () => {
  const { stdout } = await berth("--help");
  expect([...stdout.matchAll(/^ {2}berth (\w+) +\w/gm)].map(([, name]) => name)).toEqual(commands);
  expect(stdout).toContain("berth COMMAND --help lists the flags of a command");
  expect(await berth("help", "status")).toEqual(await berth("status", "--help"));
});

/** As pflag writes them: `  -o, --output string  text`; what no column separates is the description. */
const FLAG_LINE = /^ {2}(-\w, | {4})--[a-z0-9-]+(\[=true\]| [\w[\]=,.-]+)? {2,}\S|^ {2}-v Level {2,}\S/;

for (const command of commands)
  test(`berth ${command} --help says how to call it, what it does and what its exit codes mean, and lists its flags`, async () => {
    const { stdout, stderr, exitCode } = await berth(command, "--help");
    expect({ stderr, exitCode }).toEqual({ stderr: "", exitCode: 0 });
    const [usage = "", blank, introduction = "", ...rest] = stdout.split("\n");
    expect(usage).toMatch(new RegExp(`^berth ${command} (POD |VERB )?\\[`));
    expect(blank).toBe("");
    expect(introduction).toMatch(/^(Runs|Shows) .*\.$/);
    expect(rest).toContainEqual(expect.stringMatching(/^ {2}-h, --help +print this help and exit$/));
    const flags = rest
      .slice(rest.findIndex((line) => line.endsWith(":") && !line.includes(",")))
      .filter((line) => line.startsWith("  "));
    for (const line of flags) expect(line).toMatch(FLAG_LINE);
    expect(stdout).toMatch(/^Exit code 0: /m);
  });

const helpOfVerb = async (verb: string) => (await berth("cni", verb, "--help")).stdout;

test("berth cni VERB --help is the help of that verb, with the flags that it reads", async () => {
  const install = await helpOfVerb("install");
  expect(install).toStartWith("berth cni install [--conf-dir DIR]");
  expect(install).toContain("set conf_dir in the configuration of the container runtime");
  const flagsOf = (help: string) => [...help.matchAll(/^ +(?:-\w, )?--([a-z-]+) .* {2,}\S/gm)].map(([, name]) => name);
  expect(flagsOf(install)).toEqual(["conf-dir", "bin-dir", "cache-dir", "chain-dir", "root-dir", "output", "help"]);
  expect(flagsOf(await helpOfVerb("list"))).toEqual(["conf-dir", "cache-dir", "root-dir", "output", "help"]);
  for (const verb of cniVerbs) {
    const help = await helpOfVerb(verb);
    expect(help).toStartWith(`berth cni ${verb} `);
    expect(help.split("\n")[2]).toMatch(/^[A-Z][^.]*s .*\.$/);
    for (const flag of verbHelp[verb].flags) expect(help).toContain(`--${flag} `);
  }
});

const listed = "the commands are run, pods, explain, status, logs, exec, cni, doctor and version";
const list = "berth --help lists the commands";
const rows: readonly (readonly [args: readonly string[], stderr: string])[] = [
  [["pod"], `berth: unknown command "pod", did you mean berth pods? ${list}`],
  [["Status"], `berth: unknown command "Status", did you mean berth status? ${list}`],
  [["get", "pods"], `berth: unknown command "get": did you mean berth pods? ${list}`],
  [["fly"], `berth: unknown command "fly"; ${listed}`],
  [["constructor"], `berth: unknown command "constructor"; ${listed}`],
  [["help", "fly"], `berth: unknown command "fly"; ${listed}`],
  [["--config", "x"], `berth: "--config": a flag follows its command; ${listed}`],
  [["run", "--confg", "x"], "--confg: unknown flag, did you mean --config? berth run --help lists the flags"],
  [["run", "-config", "x"], "-config: unknown flag, did you mean --config? berth run --help lists the flags"],
  [["run", "--fly"], "--fly: unknown flag; berth run --help lists the flags"],
  [
    ["doctor", "--confg=x"],
    "berth doctor: --confg: unknown flag, did you mean --config? berth doctor --help lists the flags",
  ],
  [
    ["doctor", "--outptu=json"],
    "berth doctor: --outptu: unknown flag, did you mean --output? berth doctor --help lists the flags",
  ],
  [
    ["pods", "--namespcae", "shop"],
    "berth pods: --namespcae: unknown flag, did you mean --namespace? berth pods --help lists the flags",
  ],
  [["pods", "web"], 'berth pods: command line: unexpected argument "web"; berth pods --help lists the flags'],
  [["pods", "-n"], "berth pods: -n: needs a value: a string"],
  [["pods", "--namespace="], 'berth pods: --namespace: found "", must be the name of a namespace'],
  [["status", "-o", "xml"], 'berth status: --output: found "xml", must be one of "text", "json"'],
  [["logs"], "berth logs: which pod? berth pods lists them"],
  [["logs", "web", "c"], 'berth logs: unexpected argument "c": -c names a container of the pod'],
  [
    ["logs", "web", "--since", "yesterday"],
    'berth logs: --since: found "yesterday", must be a duration such as 300ms or 1m30s',
  ],
  [
    ["logs", "web", "--since-time", "yesterday"],
    'berth logs: --since-time: "yesterday" is not a time such as 2026-01-02T03:04:05Z',
  ],
  [
    ["logs", "web", "--since=5s", "--since-time=2026-01-02T03:04:05Z"],
    "berth logs: at most one of --since and --since-time may be used",
  ],
  [["logs", "web", "--limit-bytes=-1"], "berth logs: --limit-bytes: found -1, must be at least 1, or 0 for all bytes"],
  [["logs", "web", "--tail=x"], 'berth logs: --tail: found "x", must be an integer'],
  [["cni"], "berth cni: what to do? one of list, add, check, del, gc, status, install, uninstall"],
  [["cni", "ad"], 'berth cni: unknown verb "ad", must be one of list, add, check, del, gc, status, install, uninstall'],
  [["cni", "add", "a", "b"], 'berth cni: unexpected argument "b": one network follows the verb'],
  [["cni", "add"], "berth cni: add needs --netns"],
  [["cni", "install", "net"], "berth cni: install takes no network"],
  [["cni", "del", "net"], "berth cni: del needs --netns, or --container-id"],
  [["cni", "add", "--netns=/n", "--args=a;b=c"], 'berth cni: --args: found "a", must be KEY=VALUE;KEY=VALUE'],
  [
    ["cni", "add", "--netns=/n", "--capability-args=[]"],
    'berth cni: --capability-args: found [], must be a JSON object such as {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}',
  ],
  [["status", "--watch"], "berth status: --watch: unknown flag; berth status --help lists the flags"],
  [
    ["version", "--outptu", "json"],
    "berth version: --outptu: unknown flag, did you mean --output? berth version --help lists the flags",
  ],
];
for (const [args, stderr] of rows)
  test(`berth ${args.join(" ")} is refused in one line that says what to do`, async () => {
    expect(await berth(...args)).toEqual({ stdout: "", stderr: `${stderr}\n`, exitCode: 2 });
  });

// A command must also end by itself, whatever it has opened.
for (const command of commands)
  test(`berth ${command} says the same in a process of its own`, async () => {
    const args = rows.map(([each]) => each).find(([name]) => name === command) ?? [command, "--help"];
    expect(await runProcess(args)).toEqual(await berth(...args));
  });
