import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, statSync } from "node:fs";
import { chmod, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CriRuntime, createRuntime } from "../../cri/client.ts";
import type { RuntimeEvent } from "../../cri/runtime.ts";
import { createStats } from "../../cri/stats.ts";
import { createStreaming } from "../../cri/streaming.ts";
import { createClock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import { ContainerConfig, ContainerState, PodSandboxConfig } from "../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import { type Containerd, type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { busyboxImage, importImages } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";
import { findRunc, skipWithoutRunc } from "../upstream/runc.ts";
import { failureOf, runtimeContract } from "./runtime.ts";
import { usersContract } from "./runtime-user-namespaces.ts";

const isRoot = process.getuid?.() === 0;

/** A thread that runs on another core goes on for a moment after the signal. */
async function isStopped(pid: number): Promise<boolean> {
  const tasks = await readdir(`/proc/${pid}/task`);
  const stats = await Promise.all(tasks.map((task) => readFile(`/proc/${pid}/task/${task}/stat`, "utf8")));
  // The state stands behind the name, which may hold anything (proc_pid_stat(5)).
  return stats.every((stat) => stat.slice(stat.lastIndexOf(")") + 2).startsWith("T"));
}

/** The contract of `Runtime`, and what only a real runtime can show, on a private containerd of one release. */
export function containerdContract(version: ContainerdVersion): void {
  if (!isRoot) {
    test.skip(`containerd ${version}: a container runtime needs root`, () => {});
    return;
  }
  runtimeContract(`containerd ${version}`, async () => {
    const bed = await startBed(version);
    return {
      runtime: bed.runtime,
      image: busyboxImage,
      logFolder: join(bed.folder, "logs"),
      hasSpoken: async (path) => existsSync(path) && (await readFile(path, "utf8")).includes("ready"),
      abilities: version === "1.6" ? undefined : { userNamespaces: false, supplementalGroupsPolicy: true },
      source: "containerd-events",
      end: bed.end,
    };
  });
  describe(`the client of containerd ${version}`, () => clientTests(version));
}

/** The same for users of a pod's own, which Debian 12's runc cannot give. */
export function containerdUsersContract(): void {
  const name = "containerd 2.1 with a newer runc";
  const reason = isRoot ? skipWithoutRunc(`${name} gives pods users of their own`) : "a container runtime needs root";
  if (reason !== undefined) {
    test.skip(`${name}: ${reason}`, () => {});
    return;
  }
  usersContract(name, async () => {
    const bed = await startBed("2.1", await findRunc());
    return { runtime: bed.runtime, image: busyboxImage, logFolder: join(bed.folder, "logs"), end: bed.end };
  });
}

function clientTests(version: ContainerdVersion): void {
  let bed: Bed;
  let sandbox: SandboxId;
  let container: ContainerId;
  beforeAll(async () => {
    bed = await startBed(version);
    ({ sandbox, container } = await runSleeper(bed.runtime));
  });
  afterAll(() => bed.end());

  test("its events are containerd's own, whatever its CRI has", async () => {
    const { heard, leave } = follow(bed.runtime);
    await until("the connection", 5_000, () => heard.length > 0);
    expect(heard[0]).toEqual({ kind: "connected", source: "containerd-events" });
    await leave();
  });

  test("a streaming session is answered with a URL", async () => {
    const { exec, attach, portForward } = createStreaming(bed.runtime.connection, 10_000);
    const streams = { tty: false, stdin: false, stdout: true, stderr: true };
    expect(await exec({ containerId: container, cmd: ["true"], ...streams })).toStartWith("http");
    expect(await attach({ containerId: container, ...streams })).toStartWith("http");
    expect(await portForward(sandbox, [80])).toStartWith("http");
  });

  test("images take room on a file system", async () => {
    const { imageFilesystems } = await bed.runtime.imageFsInfo();
    expect(imageFilesystems[0]?.fsId?.mountpoint).toStartWith(bed.folder);
  });

  test("resources of a running container are changed, and its log is reopened", async () => {
    const { reopenContainerLog, updateRuntimeConfig } = bed.runtime;
    await updateRuntimeConfig({ networkConfig: { podCidr: "" } });
    await reopenContainerLog(container);
  });

  test("the cgroup driver is told, or UNIMPLEMENTED", async () => {
    const answer = bed.runtime.runtimeConfig().then(
      ({ linux }) => linux?.cgroupDriver,
      ({ code }) => code,
    );
    expect(await answer).toBe(version === "1.6" ? "UNIMPLEMENTED" : 1);
  });

  test("statistics of absent things are errors of the runtime, not ours", async () => {
    const { containerStats, podSandboxStats } = createStats(bed.runtime.connection, 10_000);
    expect(await failureOf(containerStats("0123abcd" as ContainerId))).toMatchObject({ name: "CriError" });
    expect(await failureOf(podSandboxStats("0123abcd" as SandboxId))).toMatchObject({ name: "CriError" });
  });

  test("containerd killed and started again is back within two seconds, and its containers ran on", async () => {
    const { socket } = bed.containerd;
    const { heard, leave } = follow(bed.runtime);
    await until("the connection", 5_000, () => heard.length > 0);
    const madeAt = () => (existsSync(socket) ? statSync(socket).ctimeMs : undefined);
    const before = madeAt();
    const saidBefore = bed.said.length;
    const { startedAt } = await bed.runtime.containerStatus(container);
    await bed.containerd.kill9();
    await until("the loss to be seen", 2_000, () => heard.some(({ kind }) => kind === "disconnected"));
    expect(await failureOf(bed.runtime.version())).toMatchObject({ code: "UNAVAILABLE" });
    // By then the back-off is at its longest.
    const isAttempt = ({ message }: Bed["said"][number]) => message.includes("does not answer as it should");
    await until("six attempts", 15_000, () => bed.said.slice(saidBefore).filter(isAttempt).length >= 6);
    const restarted = bed.containerd.restart();
    await until("the socket", 10_000, () => madeAt() !== undefined && madeAt() !== before);
    const socketAt = performance.now();
    await until("the connection", 5_000, () => heard.at(-1)?.kind === "connected");
    expect(performance.now() - socketAt).toBeLessThan(2_000);
    expect(heard.map(({ kind }) => kind)).toEqual(["connected", "disconnected", "connected"]);
    const status = await bed.runtime.containerStatus(container);
    expect(status).toMatchObject({ state: ContainerState.CONTAINER_RUNNING, startedAt });
    // The client tells at debug only: whoever follows the runtime tells the outage, once.
    expect(bed.said.slice(saidBefore).filter(({ level }) => level !== "debug")).toEqual([]);
    await restarted;
    await leave();
  });

  test("a runtime that hangs is DEADLINE_EXCEEDED, and all is well when it wakes", async () => {
    const { pid } = bed.containerd;
    // 0 would be our own process group.
    expect(pid).toBeGreaterThan(0);
    process.kill(pid, "SIGSTOP");
    try {
      await until("every thread of containerd to stand still", 5_000, () => isStopped(pid));
      expect(await failureOf(bed.runtime.version({ deadlineMs: 200 }))).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    } finally {
      process.kill(pid, "SIGCONT");
    }
    expect((await bed.runtime.version()).runtimeName).toBe("containerd");
  });

  test("all calls were counted, with their failures", async () => {
    await bed.runtime.execSync(container, ["true"], 5);
    expect(await failureOf(bed.runtime.execSync(container, ["sleep", "60"], 1))).toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    const { Version, ExecSync } = bed.runtime.metrics();
    expect(Version?.count).toBeGreaterThan(1);
    expect(Version?.errors).toMatchObject({ UNAVAILABLE: expect.any(Number), DEADLINE_EXCEEDED: 1 });
    expect(ExecSync).toMatchObject({ count: 2, errors: { DEADLINE_EXCEEDED: 1 } });
    expect(ExecSync?.maxMs).toBeGreaterThanOrEqual(1_000);
    expect(ExecSync?.totalMs).toBeGreaterThanOrEqual(ExecSync!.maxMs);
  });
}

interface Bed {
  readonly containerd: Containerd;
  readonly runtime: CriRuntime;
  readonly folder: string;
  readonly said: readonly { readonly level: string; readonly message: string }[];
  end(): Promise<void>;
}

async function startBed(version: ContainerdVersion, runc?: string): Promise<Bed> {
  const folder = await mkdtemp(join(tmpdir(), "berth-contract-"));
  // Users of a pod's own have to pass through.
  await chmod(folder, 0o711);
  const containerd = await startContainerd({ version, stateDir: folder, ...(runc !== undefined && { runc }) });
  await importImages(containerd);
  const said: { level: string; message: string }[] = [];
  const say = (level: string) => (_: unknown, message: string) => void said.push({ level, message });
  const log: Log = { debug: say("debug"), info: say("info"), warn: say("warn"), error: say("error"), child: () => log };
  const { endpoint } = containerd;
  const runtime = createRuntime({ endpoint, requestTimeoutMs: 30_000, clock: createClock(), log, random: Math.random });
  const end = async () => {
    runtime.close();
    await containerd.stop();
    await rm(folder, { recursive: true });
  };
  return { containerd, runtime, folder, said, end };
}

async function runSleeper(runtime: CriRuntime) {
  const config = PodSandboxConfig.fromPartial({
    metadata: { name: "sleeper", uid: "s", namespace: "contract" },
    linux: {},
  });
  const sandbox = await runtime.runPodSandbox(config, "");
  const container = await runtime.createContainer(
    sandbox,
    ContainerConfig.fromPartial({
      metadata: { name: "sleeper" },
      image: { image: busyboxImage },
      command: ["sleep", "600"],
      linux: {},
    }),
    config,
  );
  await runtime.startContainer(container);
  return { sandbox, container };
}

function follow(runtime: CriRuntime) {
  const heard: RuntimeEvent[] = [];
  const listener = new AbortController();
  const following = runtime.events((event) => heard.push(event), listener.signal);
  const leave = async () => {
    listener.abort();
    await following;
  };
  return { heard, leave };
}
