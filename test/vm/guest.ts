// The test program that runs in the guest. Process 1 starts only this program. It starts containerd and the agent, runs
// the checks, reports each as a JSON object per line on standard output, and powers the machine off.
import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync, writeFileSync, writeSync } from "node:fs";
import { access, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { execa } from "execa";
import { LOCAL_SOCKET } from "../../agent/config/local-socket.ts";
import { kernelTunables } from "../../agent/preflight/kernel-tunables.ts";
import type { PodListing, PodSummary } from "../../agent/serve/local/pod-list.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { berthFolder } from "./guest-paths.ts";
import type { GuestMessage } from "./guest-protocol.ts";
import { bomb, hungry, podPidsLimit, probed, sharedFolder } from "./pods.ts";

/** The timeout of each step: one second on a real machine may be half a minute on a busy emulated one. */
const STEP_TIMEOUT_MS = 10 * 60_000;

const socket = "/run/containerd/containerd.sock";
const manifests = "/run/manifests";
const logs = { containerd: "/run/containerd.log", agent: "/run/agent.log" };
const rootDir = "/var/lib/kubelet";

const report = (word: GuestMessage) => writeSync(1, `${JSON.stringify(word)}\n`);

/** Polls every half second, because each poll costs time on the emulated processor. */
const waitFor = <T>(
  what: string,
  condition: () => Promise<T | false | undefined> | T | false | undefined,
): Promise<T> => pollUntil(what, STEP_TIMEOUT_MS, condition, 500);

const exists = async (path: string) =>
  await access(path).then(
    () => true,
    () => false,
  );
const read = async (path: string) => (await readFile(path, "utf8")).trim();

function assert(condition: boolean, otherwise: string): asserts condition {
  if (!condition) throw new Error(otherwise);
}

/** Starts a daemon; its stderr goes to a file and to the console. */
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
  await waitFor("containerd's socket", () => exists(socket));
  await execa("ctr", ["-n", "k8s.io", "images", "import", join(berthFolder, "images.tar")], {
    timeout: STEP_TIMEOUT_MS,
  });
}

/** The pods that `berth pods --watch` shows. */
interface PodWatch {
  /** Resolves with the pod of this name once it fulfils the condition. */
  pod(what: string, name: string, condition: (pod: PodSummary) => boolean): Promise<PodSummary>;
  gone(name: string): Promise<void>;
  readonly agent: ChildProcess;
}

async function startAgent(): Promise<PodWatch> {
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
  await waitFor("the agent's socket", () => {
    assert(agent.exitCode === null, `the agent exited with code ${agent.exitCode}`);
    return exists(join(rootDir, LOCAL_SOCKET));
  });
  // The watch updates `shown` after each change.
  let shown: PodListing = { pods: [] };
  const watch = spawn(program, ["pods", "--watch", "-o", "json"], { stdio: ["ignore", "pipe", "inherit"] });
  createInterface({ input: watch.stdout }).on("line", (line) => (shown = JSON.parse(line) as PodListing));
  const find = (name: string) => shown.pods.find((pod) => pod.name === `${name}-vm`);
  const describe = (name: string) => {
    const { phase, reason, message } = find(name) ?? { phase: "not shown", reason: "", message: "" };
    return `it is ${phase} ${reason}: ${message}`;
  };
  return {
    agent,
    pod: async (what, name, condition) => {
      const matching = () => {
        assert(watch.exitCode === null, "berth pods --watch has exited");
        const pod = find(name);
        return pod !== undefined && condition(pod) && pod;
      };
      return await waitFor(what, matching).catch((cause: Error) => {
        throw new Error(`${cause.message}; ${describe(name)}`, { cause });
      });
    },
    async gone(name) {
      await waitFor(`${name} is gone`, () => find(name) === undefined);
    },
  };
}

const addPod = (pod: { readonly metadata: { readonly name: string } }) =>
  writeFile(join(manifests, `${pod.metadata.name}.json`), JSON.stringify(pod));
const removePod = (pod: { readonly metadata: { readonly name: string } }) =>
  rm(join(manifests, `${pod.metadata.name}.json`));

const firstContainer = (pod: PodSummary) => pod.status.containerStatuses?.[0];

/** The cgroup directory of a pod's first container. */
function cgroupOf(pod: PodSummary): string {
  const id = firstContainer(pod)?.containerID?.replace("containerd://", "") ?? "";
  assert(id !== "", "a running container has no id");
  return join("/sys/fs/cgroup/k8s.io", id);
}

/** The checks in order; each leaves its pod for the following ones. Each returns a detail for its output line. */
function checks({ pod, gone, agent }: PodWatch): Readonly<Record<CheckName, () => Promise<string>>> {
  let bombCgroup = "";
  return {
    async "the kernel's settings are Kubernetes'"() {
      for (const { name, value } of kernelTunables) {
        const found = await read(join("/proc/sys", name.replaceAll(".", "/")));
        assert(found === String(value), `${name} is ${found} and not ${value}`);
      }
      return `${kernelTunables.length} sysctls`;
    },
    async "podPidsLimit is pids.max"() {
      await addPod(bomb);
      bombCgroup = cgroupOf(
        await pod("the bomb runs", "bomb", (each) => firstContainer(each)?.state?.running !== undefined),
      );
      const limit = await read(join(bombCgroup, "pids.max"));
      assert(limit === String(podPidsLimit), `pids.max is ${limit}, and podPidsLimit is ${podPidsLimit}`);
      return `pids.max is ${limit}`;
    },
    async "pids.max limits a fork bomb"() {
      const rejected = await waitFor("a rejected fork", async () => {
        const count = Number(/^max (\d+)/m.exec(await read(join(bombCgroup, "pids.events")))?.[1]);
        return count > 0 && count;
      });
      const current = Number(await read(join(bombCgroup, "pids.current")));
      assert(current <= podPidsLimit, `it has ${current} processes`);
      return `${current} processes, ${rejected} forks rejected`;
    },
    async "a pod becomes ready beside the fork bomb"() {
      await addPod(probed);
      await pod("a pod is ready beside the bomb", "probed", (each) => firstContainer(each)?.ready === true);
      const hooks = await read(join(sharedFolder, "hooks"));
      assert(hooks === "started", `the hooks have written "${hooks}"`);
      const current = Number(await read(join(bombCgroup, "pids.current")));
      assert(current > podPidsLimit / 2, `the bomb has only ${current} processes left`);
      return "by its readiness probe, after its postStart hook";
    },
    async "the fork bomb is removed"() {
      await removePod(bomb);
      await gone("bomb");
      assert(!(await exists(bombCgroup)), "its cgroup still exists");
      return "pod and cgroup are gone";
    },
    async "liveness probe and hooks run"() {
      await writeFile(join(sharedFolder, "sick"), "");
      const restarted = await pod(
        "a second instance is ready",
        "probed",
        (each) => each.restarts > 0 && firstContainer(each)?.ready === true,
      );
      const hooks = (await read(join(sharedFolder, "hooks"))).split("\n");
      assert(hooks.join() === "started,stopped,started", `the hooks have written ${hooks}`);
      assert(restarted.restarts === 1, `it was restarted ${restarted.restarts} times`);
      return "failed, preStop, restart, postStart, ready";
    },
    async "static pods do not swap"() {
      await addPod(hungry);
      const folder = cgroupOf(
        await pod("hungry runs", "hungry", (each) => firstContainer(each)?.state?.running !== undefined),
      );
      const [swap, group] = await Promise.all(
        ["memory.swap.max", "memory.oom.group"].map((name) => read(join(folder, name))),
      );
      assert(swap === "0", `memory.swap.max is ${swap}, but a static pod is critical and gets no swap`);
      assert(group === "1", `memory.oom.group is ${group}`);
      return `memory.swap.max is ${swap} with LimitedSwap on a node with swap`;
    },
    async "an OOM kill ends the whole container"() {
      await writeFile(join(sharedFolder, "eat"), "");
      const endOf = (each: PodSummary) => firstContainer(each)?.state?.terminated;
      // The runtime may report the OOM a moment after the exit.
      const isReported = (each: PodSummary) => each.phase === "Failed" && endOf(each)?.reason !== "Error";
      const { reason, exitCode } = endOf(await pod("hungry has failed, and why", "hungry", isReported)) ?? {};
      assert(reason === "OOMKilled" && exitCode === 137, `it ended with reason ${reason} and code ${exitCode}`);
      assert(!(await exists(join(sharedFolder, "survivors"))), "its first process survived the OOM kill");
      return "OOMKilled, code 137, no process is left";
    },
    async "the agent reports a system OOM"() {
      await execa("busybox", ["swapoff", "/dev/vdc"]);
      const eat = "echo 1000 > /proc/self/oom_score_adj; exec busybox dd if=/dev/zero of=/dev/null bs=2000M count=1";
      const hog = spawn("busybox", ["sh", "-c", eat], { stdio: "ignore" });
      await waitFor("the OOM kill", () => hog.exitCode !== null || hog.signalCode !== null);
      assert(hog.signalCode === "SIGKILL", `the memory hog ended with ${hog.signalCode ?? `code ${hog.exitCode}`}`);
      const pattern = new RegExp(`System OOM encountered, victim process: \\w+, pid: ${hog.pid}\\b`);
      const [line] = await waitFor(
        "the agent's log line",
        async () => pattern.exec(await read(logs.agent)) ?? undefined,
      );
      assert(agent.exitCode === null && agent.signalCode === null, "the agent has exited");
      return line;
    },
  };
}

const checkNames = [
  "the kernel's settings are Kubernetes'",
  "podPidsLimit is pids.max",
  "pids.max limits a fork bomb",
  "a pod becomes ready beside the fork bomb",
  "the fork bomb is removed",
  "liveness probe and hooks run",
  "static pods do not swap",
  "an OOM kill ends the whole container",
  "the agent reports a system OOM",
] as const;
type CheckName = (typeof checkNames)[number];

async function runChecks(): Promise<void> {
  const controllers = await read("/sys/fs/cgroup/cgroup.controllers");
  const swap = /^SwapTotal: *(\d+ kB)/m.exec(await read("/proc/meminfo"))?.[1];
  const machine = `Linux ${release()}, cgroup v2 with ${controllers}, ${swap} of swap`;
  report({ kind: "begin", checks: ["containerd and the agent", ...checkNames], machine });
  let check = "containerd and the agent";
  try {
    await mkdir(sharedFolder);
    await startContainerd();
    const shown = await startAgent();
    const { stdout } = await execa("containerd", ["--version"]);
    report({ kind: "passed", check, detail: stdout.split(" ").slice(1, 3).join(" ") });
    const all = checks(shown);
    for (const name of checkNames) {
      check = name;
      report({ kind: "passed", check, detail: await all[name]() });
    }
  } catch (error) {
    // The following checks depend on this one.
    report({ kind: "failed", check, detail: error instanceof Error ? error.message : String(error) });
    for (const [name, path] of Object.entries(logs))
      report({ kind: "log", name, text: (await readFile(path, "utf8").catch(ifAbsent(""))).slice(-20_000) });
  }
}

try {
  await runChecks();
} finally {
  // Powers off at once without a shutdown; the disks are not needed any more.
  writeFileSync("/proc/sysrq-trigger", "o");
}
await pause(STEP_TIMEOUT_MS);
