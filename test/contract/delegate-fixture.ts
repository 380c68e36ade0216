import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import type { NetworkSource } from "../../agent/config/config.ts";
import { formatDelegateList } from "../../cni/delegate/delegate-conf.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { pollUntil } from "../bed/poll-until.ts";
import type { DelegateForm } from "./delegate-forms.ts";

const agentProcess = join(import.meta.dirname, "network-process.ts");
const inOuter = ["netns", "exec", "outer"];
const namespaces = ["outer", "inner", "second"];

/** The time of a call that is to be over. */
export const TIMEOUT_MS = 3_000;

export const done = { exitCode: 0, stderr: "" };
const addedWith = (address: string) => ({
  ...done,
  output: { cniVersion: "1.0.0", ips: [{ address, gateway: "10.222.5.1" }] },
});
export const added = addedWith("10.222.5.2/24");
/** The next one, by the agent or the delegate: no pod gets the address of one that has just gone. */
export const addedNext = addedWith("10.222.5.3/24");

/** The view of a node with one pod, and without any. */
export const attached = { links: ["eth0", "veth"], addresses: ["10.222.5.2"], cached: ["pods-3f2a-eth0"] };
export const nothing = { links: [], addresses: [], cached: [] };

export interface AgentProcess {
  /** Default: the list of the folder. */
  readonly source?: NetworkSource;
  /** The ready sandboxes of its runtime; none is ever listed if they are not given. */
  readonly sandboxes?: readonly string[];
}

export interface CallInput {
  readonly timeoutMs?: number;
  readonly netns?: string;
  readonly containerId?: string;
  readonly ifName?: string;
  readonly hostPort?: number;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Of the agent, below the node's folder. */
  readonly socket?: string;
}

/** What the kernel, the record of the built-in network and the cache have of a pod. */
export interface DelegateView {
  readonly links: readonly string[];
  readonly addresses: readonly string[];
  readonly cached: readonly string[];
}

/** A node whose container runtime is the test: network namespaces, a folder of plugins with the delegate, the list of a chain. */
export type DelegateNode = Awaited<ReturnType<typeof createDelegateNode>>;

/** Creates a node with this form of the delegate, in the caller's own mount namespace with its own `/run`. */
export async function createDelegateNode(form: DelegateForm) {
  const folder = await mkdtemp(join(tmpdir(), "berth-delegate-"));
  for (const name of ["net.d", "bin", "runtime.d", "root"]) await mkdir(join(folder, name));
  await form.install(join(folder, "bin"));
  for (const name of namespaces) await execa("ip", ["netns", "add", name]);
  await writeFile(join(folder, "runtime.d/10-berth.conflist"), formatDelegateList(confOf(folder, TIMEOUT_MS)));
  await putChain(folder, {});
  const [agents, held] = [agentsOf(folder), heldPluginOf(folder)];
  return {
    ...{ folder, ...agents, ...held },
    putChain: (fields: object, ...after: readonly object[]) => putChain(folder, fields, ...after),
    removeChain: () => rm(join(folder, "net.d/10-pods.conflist")),
    call: (verb: string, input: CallInput = {}) => callDelegate(form, folder, verb, input),
    view: () => viewOf(folder),
    viewAfterDel: () => viewAfterDel(folder),
    async close() {
      held.killStopped();
      await agents.killAgent();
      for (const name of namespaces) await execa("ip", ["netns", "del", name]);
      await rm("/run/berth", { recursive: true, force: true });
      await rm(folder, { recursive: true });
    },
  };
}

/** The fields of the delegate in its list. */
export const confOf = (folder: string, timeoutMs: number, socket = "root/cni.sock") => ({
  socket: join(folder, socket),
  confDir: join(folder, "net.d"),
  binDirs: [join(folder, "bin")],
  cacheDir: join(folder, "cache"),
  timeoutMs,
});

function agentsOf(folder: string) {
  let agent: Bun.Subprocess<"ignore", "pipe", "inherit"> | undefined;
  return {
    async startAgent({ source = "chain", sandboxes = [] }: AgentProcess = {}) {
      await rm(join(folder, "root/status.sock"), { force: true });
      const folders = [join(folder, "root"), join(folder, "runtime.d")];
      const listed = sandboxes.length === 0 ? [] : [sandboxes.join(",")];
      const argv = ["ip", ...inOuter, process.execPath, agentProcess, ...folders, source, ...listed];
      agent = Bun.spawn(argv, { stdout: "pipe", stderr: "inherit", stdin: "ignore" });
      const { value } = await agent.stdout.getReader().read();
      const printed = new TextDecoder().decode(value);
      if (printed !== "served\n") throw new Error(`the agent has printed ${JSON.stringify(printed)}`);
      return agent;
    },
    /** Reads the status of the agent: whether the network is ready, or why not. */
    async networkReady(): Promise<true | string> {
      const answer = await fetch("http://agent/", { unix: join(folder, "root/status.sock") });
      const { status, message } = (await answer.json()) as { readonly status: boolean; readonly message: string };
      return status || message;
    },
    async killAgent() {
      agent?.kill("SIGKILL");
      await agent?.exited;
      agent = undefined;
    },
  };
}

async function putChain(folder: string, fields: object, ...after: readonly object[]) {
  const ranges = [[{ subnet: "10.222.5.0/24" }]];
  // Another bridge than that of `--network=builtin`.
  const plugin = { type: "berth", bridge: "chain0", ranges, capabilities: { portMappings: true }, ...fields };
  const chain = { cniVersion: "1.1.0", name: "pods", plugins: [plugin, ...after] };
  await writeFile(join(folder, "net.d/10-pods.conflist"), JSON.stringify(chain));
}

/** Calls the delegate with what libcni gives it, and returns what it answers and how long it took. */
async function callDelegate(
  form: DelegateForm,
  folder: string,
  verb: string,
  {
    timeoutMs = 60_000,
    netns = "/run/netns/inner",
    containerId = "3f2a",
    ifName = "eth0",
    hostPort = 8080,
    annotations = {},
    socket,
  }: CallInput,
) {
  const [plugin] = (JSON.parse(formatDelegateList(confOf(folder, timeoutMs, socket))) as { plugins: [object] }).plugins;
  const portMappings = [{ hostPort, containerPort: 80, protocol: "tcp" }];
  const runtimeConfig = { portMappings, "io.kubernetes.cri.pod-annotations": annotations };
  const input = JSON.stringify({ cniVersion: "1.0.0", name: "berth-delegate", ...plugin, runtimeConfig });
  const parameters = { CNI_COMMAND: verb, CNI_CONTAINERID: containerId, CNI_NETNS: netns, CNI_IFNAME: ifName };
  const args = `K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=${containerId}`;
  const env = { ...parameters, CNI_ARGS: args, CNI_PATH: join(folder, "bin") };
  const startedMs = performance.now();
  const argv = [...inOuter, ...form.argv(join(folder, "bin"))];
  const { stdout, stderr, exitCode, signal } = await execa("ip", argv, { env, input, reject: false });
  const output = stdout === "" ? undefined : (JSON.parse(stdout) as Readonly<Record<string, unknown>>);
  return { output, stderr, exitCode, signal, durationMs: performance.now() - startedMs };
}

/** The interfaces of both namespaces that a pod has, its reserved address, and its entry in the cache. */
async function viewOf(folder: string): Promise<DelegateView> {
  const linksOf = async (netns: string) => {
    const { stdout } = await execa("ip", ["-n", netns, "-brief", "link"]);
    return stdout.split("\n").flatMap((line) => line.match(/^(veth|eth0)/)?.[0] ?? []);
  };
  const namesIn = (path: string) => readdir(path).catch(ifAbsent<readonly string[]>([]));
  return {
    links: [...(await linksOf("inner")), ...(await linksOf("outer"))],
    addresses: await namesIn("/run/berth/network/pods/addresses"),
    cached: await namesIn(join(folder, "cache/results")),
  };
}

/** As after DEL, but for the links: the agent deletes those that outlive DEL two seconds later. */
async function viewAfterDel(folder: string): Promise<DelegateView> {
  const view = await viewOf(folder);
  let { links } = view;
  const areGone = async () => {
    ({ links } = await viewOf(folder));
    return links.length === 0;
  };
  // What is left is in the view.
  await pollUntil("the links to be gone", 5_000, areGone).catch(() => undefined);
  return { ...view, links };
}

/** The plugin `slow`, which notes its calls, and waits in one verb as long as its file `hold-VERB` exists. */
function heldPluginOf(folder: string) {
  const stopped = new Set<number>();
  /** The process that executes an attachment or a network has written its id into the lock. */
  async function signalExecutor(signal: NodeJS.Signals, lock = "pods-3f2a-eth0") {
    const holder = await readFile(join(folder, "cache/locks", lock), "utf8");
    const pid = Number(holder.split(" ").at(-1));
    // 0 would be this test's own process group.
    if (!(pid > 1)) throw new Error(`the lock ${lock} names no process: ${JSON.stringify(holder)}`);
    process.kill(pid, signal);
    if (signal === "SIGSTOP") stopped.add(pid);
    else stopped.delete(pid);
  }
  const notes = async () => (await readFile(join(folder, "notes"), "utf8").catch(ifAbsent(""))).trim().split("\n");
  return {
    notes,
    signalExecutor,
    /** Kills the executors that a test which has failed has left stopped. */
    killStopped() {
      for (const pid of stopped) process.kill(pid, "SIGKILL");
    },
    async putSlowPlugin() {
      const script = `#!/bin/sh
cd ${folder}
# Whole, so that an executor that is stopped from now on owes it nothing.
input=$(cat)
echo "$CNI_COMMAND begins" >> notes
if [ -e hold-$CNI_COMMAND ]; then
  echo $$ > held
  while [ -e hold-$CNI_COMMAND ]; do sleep 0.02; done
fi
echo "$CNI_COMMAND ends" >> notes
if [ "$CNI_COMMAND" = ADD ]; then printf '%s' "$input" | sed 's/.*"prevResult"://; s/}$//'; fi
`;
      await writeFile(join(folder, "bin/slow"), script, { mode: 0o755 });
      await putChain(folder, {}, { type: "slow" });
    },
    hold: (verb: string) => writeFile(join(folder, `hold-${verb}`), ""),
    letGo: (verb: string) => rm(join(folder, `hold-${verb}`)),
    /** The process id of the plugin that waits. */
    async heldPlugin(): Promise<number> {
      const pid = await pollUntil("the plugin to wait", 20_000, async () => {
        const text = await readFile(join(folder, "held"), "utf8").catch(ifAbsent(""));
        return text.endsWith("\n") ? Number(text) : undefined;
      });
      await rm(join(folder, "held"));
      return pid;
    },
    async waitForNote(note: string) {
      await pollUntil(`the note ${note}`, 10_000, async () => (await notes()).includes(note));
    },
  };
}
