// Runs in the guest, compiled, as its only program beside process 1: starts containerd and the agent, makes the checks, and turns the
// machine off. What it finds it says on standard output, one JSON a line.
import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, writeFileSync, writeSync } from "node:fs";
import { access, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { execa } from "execa";
import { localSocket } from "../../agent/config/local-socket.ts";
import type { PodListing, PodSummary } from "../../agent/serve/local/pod-list.ts";
import { until } from "../bed/poll-until.ts";
import { berthFolder } from "./guest-paths.ts";
import type { Word } from "./guest-protocol.ts";
import { bomb, hungry, podPidsLimit, probed, sharedFolder } from "./pods.ts";

/** How long anything may take: what lasts a second on a machine may last half a minute on an emulated one that is busy. */
const PATIENCE_MS = 10 * 60_000;

const socket = "/run/containerd/containerd.sock";
const manifests = "/run/manifests";
const logs = { containerd: "/run/containerd.log", agent: "/run/agent.log" };
const rootDir = "/var/lib/kubelet";

const say = (word: Word) => writeSync(1, `${JSON.stringify(word)}\n`);

/** Half a second apart: each question costs the emulated processor time. */
const seen = <T>(what: string, condition: () => Promise<T | false | undefined> | T | false | undefined): Promise<T> =>
  until(what, PATIENCE_MS, condition, 500);

const exists = async (path: string) =>
  await access(path).then(
    () => true,
    () => false,
  );
const read = async (path: string) => (await readFile(path, "utf8")).trim();

function assert(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}

/** Its words go to a file, and to the console for whoever waits. */
function startDaemon(program: string, args: readonly string[], log: string): ChildProcess {
  const child = spawn(program, [...args], { stdio: ["ignore", "ignore", "pipe"] });
  child.stderr.on("data", (chunk: Buffer) => {
    appendFileSync(log, chunk);
    writeSync(2, chunk);
  });
  return child;
}

async function startContainerd(): Promise<void> {
  startDaemon("containerd", ["--config", join(berthFolder, "containerd.toml")], logs.containerd);
  await seen("containerd's socket", () => exists(socket));
  await execa("ctr", ["-n", "k8s.io", "images", "import", join(berthFolder, "images.tar")], { timeout: PATIENCE_MS });
}

/** What the agent shows, as `berth pods` does. */
interface Shown {
  /** The pod of this name that fulfils a condition, as soon as it does. */
  pod(what: string, name: string, condition: (pod: PodSummary) => boolean): Promise<PodSummary>;
  gone(name: string): Promise<void>;
  readonly agent: ChildProcess;
}

async function startAgent(): Promise<Shown> {
  await mkdir(manifests, { recursive: true });
  const configuration = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    staticPodPath: manifests,
    containerRuntimeEndpoint: `unix://${socket}`,
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failSwapOn: false,
    memorySwap: { swapBehavior: "LimitedSwap" },
    runtimeRequestTimeout: "10m",
    podPidsLimit,
  };
  const file = "/run/agent.json";
  await writeFile(file, JSON.stringify(configuration));
  const program = join(berthFolder, "berth");
  const agent = startDaemon(program, ["run", "--config", file, "--hostname-override", "vm"], logs.agent);
  await seen("the agent's socket", () => {
    assert(agent.exitCode === null, `the agent has ended with code ${agent.exitCode}`);
    return exists(join(rootDir, localSocket));
  });
  // Whoever asks sees what is shown now; it is told of each change.
  let shown: PodListing = { pods: [] };
  const watch = spawn(program, ["pods", "--watch", "-o", "json"], { stdio: ["ignore", "pipe", "inherit"] });
  createInterface({ input: watch.stdout }).on("line", (line) => (shown = JSON.parse(line) as PodListing));
  const find = (name: string) => shown.pods.find((pod) => pod.name === `${name}-vm`);
  const last = (name: string) => {
    const { phase, reason, message } = find(name) ?? { phase: "not shown", reason: "", message: "" };
    return `it is ${phase} ${reason}: ${message}`;
  };
  return {
    agent,
    pod: async (what, name, condition) => {
      const asWanted = () => {
        assert(watch.exitCode === null, "the agent is not watched any more");
        const pod = find(name);
        return pod !== undefined && condition(pod) && pod;
      };
      return await seen(what, asWanted).catch((cause: Error) => {
        throw new Error(`${cause.message}; ${last(name)}`, { cause });
      });
    },
    async gone(name) {
      await seen(`${name} is gone`, () => find(name) === undefined);
    },
  };
}

const bring = (pod: { readonly metadata: { readonly name: string } }) =>
  writeFile(join(manifests, `${pod.metadata.name}.json`), JSON.stringify(pod));
const take = (pod: { readonly metadata: { readonly name: string } }) =>
  rm(join(manifests, `${pod.metadata.name}.json`));

const main = (pod: PodSummary) => pod.status.containerStatuses?.[0];

/** The folder of the cgroup of a pod's container. */
function cgroupOf(pod: PodSummary): string {
  const id = main(pod)?.containerID?.replace("containerd://", "") ?? "";
  assert(id !== "", "a container that runs has no id");
  return join("/sys/fs/cgroup/k8s.io", id);
}

/** The checks in their order; each leaves its pod for those behind it. What it returns is told with its row. */
function checks({ pod, gone, agent }: Shown): Readonly<Record<CheckName, () => Promise<string>>> {
  let bombed = "";
  return {
    async "podPidsLimit is pids.max"() {
      await bring(bomb);
      bombed = cgroupOf(await pod("the bomb runs", "bomb", (each) => main(each)?.state?.running !== undefined));
      const most = await read(join(bombed, "pids.max"));
      assert(most === String(podPidsLimit), `pids.max is ${most}, and podPidsLimit is ${podPidsLimit}`);
      return `pids.max is ${most}`;
    },
    async "fork bomb is held"() {
      const refused = await seen("a fork that is refused", async () => {
        const count = Number(/^max (\d+)/m.exec(await read(join(bombed, "pids.events")))?.[1]);
        return count > 0 && count;
      });
      const current = Number(await read(join(bombed, "pids.current")));
      assert(current <= podPidsLimit, `it has ${current} processes`);
      return `${current} processes, ${refused} forks refused`;
    },
    async "pods become ready beside it"() {
      await bring(probed);
      await pod("a pod is ready beside the bomb", "probed", (each) => main(each)?.ready === true);
      const hooks = await read(join(sharedFolder, "hooks"));
      assert(hooks === "started", `the hooks have written "${hooks}"`);
      const current = Number(await read(join(bombed, "pids.current")));
      assert(current > podPidsLimit / 2, `the bomb has only ${current} processes left`);
      return "by its readiness probe, after its postStart hook";
    },
    async "fork bomb ends"() {
      await take(bomb);
      await gone("bomb");
      assert(!(await exists(bombed)), "its cgroup is there still");
      return "pod and cgroup are gone";
    },
    async "liveness probe and hooks"() {
      await writeFile(join(sharedFolder, "sick"), "");
      const restarted = await pod(
        "a second instance is ready",
        "probed",
        (each) => each.restarts > 0 && main(each)?.ready === true,
      );
      const hooks = (await read(join(sharedFolder, "hooks"))).split("\n");
      assert(hooks.join() === "started,stopped,started", `the hooks have written ${hooks}`);
      assert(restarted.restarts === 1, `it was restarted ${restarted.restarts} times`);
      return "failed, preStop, restart, postStart, ready";
    },
    async "static pods do not swap"() {
      await bring(hungry);
      const folder = cgroupOf(await pod("hungry runs", "hungry", (each) => main(each)?.state?.running !== undefined));
      const [swap, group] = await Promise.all(
        ["memory.swap.max", "memory.oom.group"].map((name) => read(join(folder, name))),
      );
      assert(swap === "0", `memory.swap.max is ${swap}, and a static pod, which is critical, gets none`);
      assert(group === "1", `memory.oom.group is ${group}`);
      return `memory.swap.max is ${swap} with LimitedSwap on a node that swaps`;
    },
    async "OOM ends the whole group"() {
      await writeFile(join(sharedFolder, "eat"), "");
      const endOf = (each: PodSummary) => main(each)?.state?.terminated;
      // The runtime may hear of the memory a moment after it has shown the end.
      const isTold = (each: PodSummary) => each.phase === "Failed" && endOf(each)?.reason !== "Error";
      const { reason, exitCode } = endOf(await pod("hungry has failed, and why", "hungry", isTold)) ?? {};
      assert(reason === "OOMKilled" && exitCode === 137, `it ended by ${reason} with code ${exitCode}`);
      assert(!(await exists(join(sharedFolder, "survivors"))), "its first process outlived the one that ate");
      return "OOMKilled, code 137, no process is left";
    },
    async "SystemOOM is told"() {
      await execa("busybox", ["swapoff", "/dev/vdc"]);
      await writeFile("/proc/sys/vm/overcommit_memory", "1");
      const eat = "echo 1000 > /proc/self/oom_score_adj; exec busybox dd if=/dev/zero of=/dev/null bs=2000M count=1";
      const eater = spawn("busybox", ["sh", "-c", eat], { stdio: "ignore" });
      await seen("the eater's end", () => eater.exitCode !== null || eater.signalCode !== null);
      assert(eater.signalCode === "SIGKILL", `the eater ended by ${eater.signalCode ?? `code ${eater.exitCode}`}`);
      const told = new RegExp(`System OOM encountered, victim process: \\w+, pid: ${eater.pid}\\b`);
      const [line] = await seen("the agent's word", async () => told.exec(await read(logs.agent)) ?? undefined);
      assert(agent.exitCode === null && agent.signalCode === null, "the agent has ended");
      return line;
    },
  };
}

const checkNames = [
  "podPidsLimit is pids.max",
  "fork bomb is held",
  "pods become ready beside it",
  "fork bomb ends",
  "liveness probe and hooks",
  "static pods do not swap",
  "OOM ends the whole group",
  "SystemOOM is told",
] as const;
type CheckName = (typeof checkNames)[number];

async function makeChecks(): Promise<void> {
  const controllers = await read("/sys/fs/cgroup/cgroup.controllers");
  const swap = /^SwapTotal: *(\d+ kB)/m.exec(await read("/proc/meminfo"))?.[1];
  const machine = `Linux ${release()}, cgroup v2 with ${controllers}, ${swap} of swap`;
  say({ kind: "begin", checks: ["containerd and the agent", ...checkNames], machine });
  let check = "containerd and the agent";
  try {
    await mkdir(sharedFolder);
    await startContainerd();
    const shown = await startAgent();
    const { stdout } = await execa("containerd", ["--version"]);
    say({ kind: "passed", check, detail: stdout.split(" ").slice(1, 3).join(" ") });
    const all = checks(shown);
    for (const name of checkNames) {
      check = name;
      say({ kind: "passed", check, detail: await all[name]() });
    }
  } catch (error) {
    // The others build on this one.
    say({ kind: "failed", check, detail: error instanceof Error ? error.message : String(error) });
    for (const [name, path] of Object.entries(logs))
      say({ kind: "log", name, text: (await readFile(path, "utf8").catch(() => "")).slice(-20_000) });
  }
}

try {
  await makeChecks();
} finally {
  // The kernel turns the machine off by itself; nothing on its disks is wanted any more.
  writeFileSync("/proc/sysrq-trigger", "o");
}
await pause(PATIENCE_MS);
