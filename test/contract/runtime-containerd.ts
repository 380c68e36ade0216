import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readCgroupDriver } from "../../cri/cgroup-driver.ts";
import { type CallRecord, createChannel } from "../../cri/channel.ts";
import { type CriRuntime, createRuntime } from "../../cri/client.ts";
import { subscribeToEvents } from "../../cri/events/subscription.ts";
import type { CriCallOptions, RuntimeEvent } from "../../cri/runtime.ts";
import { createClock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import { ContainerConfig, ContainerState, LinuxContainerResources, PodSandboxConfig } from "../../proto/cri/gen/api.ts";
import type { ContainerId } from "../../proto/ids.ts";
import { bedPaths } from "../bed/cleanup/bed-record.ts";
import { type Containerd, type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { busyboxImage, importImages } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { ensureRunc, skipWithoutRunc } from "../upstream/runc.ts";
import { failureOf, type RuntimeAnswers, runtimeContract } from "./runtime.ts";
import { userNamespaceContract } from "./runtime-user-namespaces.ts";

const isRoot = process.getuid?.() === 0;

/** Whether all threads are stopped: a thread on another core runs for a moment after the signal. */
async function isStopped(pid: number): Promise<boolean> {
  const tasks = await readdir(`/proc/${pid}/task`);
  const stats = await Promise.all(tasks.map((task) => readFile(`/proc/${pid}/task/${task}/stat`, "utf8")));
  // The state follows the command name, which may contain any character (proc_pid_stat(5)).
  return stats.every((stat) => stat.slice(stat.lastIndexOf(")") + 2).startsWith("T"));
}

/** What a release reports of its features with runc of Debian 12; those before 2.0 report none. */
const featuresOf = (version: ContainerdVersion) =>
  version.startsWith("1.")
    ? undefined
    : { userNamespaces: false, recursiveReadOnlyMounts: true, supplementalGroupsPolicy: true };

/** Releases 1.6 to 2.1 answer alike. */
const answers: RuntimeAnswers = { sandboxStats: "UNKNOWN", sandboxUpdate: "UNIMPLEMENTED" };

/** The contract of `Runtime`, and tests that need a real runtime, on a private containerd of one release. */
export function containerdContract(version: ContainerdVersion): void {
  if (!isRoot) {
    test.skip(`containerd ${version}: a container runtime needs root`, () => {});
    return;
  }
  runtimeContract(`containerd ${version}`, "containerd-events", async () => {
    const fixture = await startFixture(version);
    return {
      runtime: fixture.runtime,
      image: busyboxImage,
      logDir: join(fixture.stateDir, "logs"),
      loseState: (id) => loseState(fixture, id),
      hasLoggedReady: async (path) => existsSync(path) && (await readFile(path, "utf8")).includes("ready"),
      features: featuresOf(version),
      answers,
      end: fixture.end,
    };
  });
  describe(`the client of containerd ${version}`, () => clientTests(version));
}

/**
 * The contract of `Runtime` on a containerd whose own event service the client does not know, as that of another
 * runtime: it takes CRI's events.
 */
export function criEventsContract(version: ContainerdVersion): void {
  const name = `containerd ${version} with CRI's events`;
  if (!isRoot) {
    test.skip(`${name}: a container runtime needs root`, () => {});
    return;
  }
  runtimeContract(name, "cri-events", async () => {
    const fixture = await startFixture(version);
    const { version: ownVersion } = fixture.runtime;
    const clock = createClock();
    const channel = createChannel({ socketPath: fixture.containerd.socket, clock, log: fixture.log });
    const deps = { channel, clock, log: fixture.log, random: Math.random };
    const versionOfOther = async (options: CriCallOptions) => ({
      ...(await ownVersion(options)),
      runtimeName: "other",
    });
    const events: CriRuntime["events"] = (listener, signal) =>
      subscribeToEvents({ ...deps, version: versionOfOther }, listener, signal);
    return {
      runtime: { ...fixture.runtime, events },
      image: busyboxImage,
      logDir: join(fixture.stateDir, "logs"),
      loseState: (id) => loseState(fixture, id),
      hasLoggedReady: async (path) => existsSync(path) && (await readFile(path, "utf8")).includes("ready"),
      features: featuresOf(version),
      answers,
      async end() {
        channel.close();
        await fixture.end();
      },
    };
  });
}

/** The contract of user namespaces, with a newer runc, since Debian 12's does not support them. */
export function containerdUserNamespaceContract(version: ContainerdVersion): void {
  const name = `containerd ${version} with a newer runc`;
  const reason = isRoot ? skipWithoutRunc(`${name} supports user namespaces`) : "a container runtime needs root";
  if (reason !== undefined) {
    test.skip(`${name}: ${reason}`, () => {});
    return;
  }
  userNamespaceContract(name, async () => {
    const fixture = await startFixture(version, await ensureRunc());
    return { runtime: fixture.runtime, image: busyboxImage, logDir: join(fixture.stateDir, "logs"), end: fixture.end };
  });
}

function clientTests(version: ContainerdVersion): void {
  let fixture: ContainerdFixture;
  let container: ContainerId;
  beforeAll(async () => {
    fixture = await startFixture(version);
    container = await runTicker(fixture);
  });
  afterAll(() => fixture.end());

  test("events come from containerd's own event service, also where CRI has events", async () => {
    const { received, stopListening } = collectEvents(fixture.runtime);
    await pollUntil("the connection", 5_000, () => received.length > 0);
    expect(received[0]).toEqual({ kind: "connected", source: "containerd-events" });
    await stopListening();
  });

  test("imageFsInfo names the file system of the images", async () => {
    const { imageFilesystems } = await fixture.runtime.imageFsInfo();
    expect(imageFilesystems[0]?.fsId?.mountpoint).toStartWith(fixture.stateDir);
  });

  test("reopenContainerLog creates the log file again after it was renamed, and the container writes to it", async () => {
    const { logPath } = await fixture.runtime.containerStatus(container);
    await rename(logPath, `${logPath}.old`);
    await fixture.runtime.reopenContainerLog(container);
    const sizeBefore = (await stat(`${logPath}.old`)).size;
    await pollUntil("a line in the new file", 5_000, async () => (await readFile(logPath, "utf8")).includes("tick"));
    expect((await stat(`${logPath}.old`)).size).toBe(sizeBefore);
  });

  test("the streaming server answers at the URL of exec, once", async () => {
    const streams = { stdin: false, stdout: true, stderr: false, tty: false };
    const url = await fixture.runtime.exec(container, ["true"], streams);
    expect(await upgradeStatus(url)).toBe(101);
    expect(await upgradeStatus(url)).toBe(404);
  });

  test("updateContainerResources changes the cgroup of a running container", async () => {
    const memoryLimitInBytes = 64n * 1024n * 1024n;
    const update = LinuxContainerResources.fromPartial({ memoryLimitInBytes });
    await fixture.runtime.updateContainerResources(container, update);
    // The file of cgroup v1, and that of v2.
    const readLimit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max";
    const { stdout } = await fixture.runtime.execSync(container, ["sh", "-c", readLimit], 60);
    expect(new TextDecoder().decode(stdout).trim()).toBe(String(memoryLimitInBytes));
  });

  test("runtimeConfig returns the cgroup driver, or is UNIMPLEMENTED before containerd 2.0", async () => {
    const answer = fixture.runtime.runtimeConfig().then(
      ({ linux }) => linux?.cgroupDriver,
      ({ code }) => code,
    );
    const isReported = !version.startsWith("1.");
    expect(await answer).toBe(isReported ? 1 : "UNIMPLEMENTED");
    // Without RuntimeConfig the verbose status shows it.
    expect(await readCgroupDriver(fixture.runtime)).toEqual({ name: "cgroupfs", isReported });
  });

  test("the client reconnects within two seconds of a restart of containerd; containers keep running", async () => {
    const { received, stopListening } = collectEvents(fixture.runtime);
    await pollUntil("the connection", 5_000, () => received.length > 0);
    const linesBefore = fixture.logLines.length;
    const { startedAt } = await fixture.runtime.containerStatus(container);
    await fixture.containerd.kill9();
    await pollUntil("the disconnection", 2_000, () => received.some(({ kind }) => kind === "disconnected"));
    expect(await failureOf(fixture.runtime.version())).toMatchObject({ code: "UNAVAILABLE" });
    // By then the back-off is at its longest.
    const isAttempt = ({ message }: ContainerdFixture["logLines"][number]) =>
      message.includes("no event stream from the container runtime");
    await pollUntil("six attempts", 15_000, () => fixture.logLines.slice(linesBefore).filter(isAttempt).length >= 6);
    await fixture.containerd.restart();
    // Its CRI answers from now on; its socket exists before.
    const backAt = performance.now();
    await pollUntil("the connection", 30_000, () => received.at(-1)?.kind === "connected");
    expect(performance.now() - backAt).toBeLessThan(2_000);
    // Another reason of the same outage is reported, too.
    const kinds = received.map(({ kind }) => kind).filter((kind, index, all) => kind !== all[index - 1]);
    expect(kinds).toEqual(["connected", "disconnected", "connected"]);
    const status = await fixture.runtime.containerStatus(container);
    expect(status).toMatchObject({ state: ContainerState.CONTAINER_RUNNING, startedAt });
    // The client logs at debug level only: the component that watches the runtime logs the outage, once.
    expect(fixture.logLines.slice(linesBefore).filter(({ level }) => level !== "debug")).toEqual([]);
    await stopListening();
  });

  const keepsExitCode = version === "1.6";
  test(`an exit while containerd is killed is in the status after its restart, ${keepsExitCode ? "with" : "without"} its code`, async () => {
    const shared = join(fixture.stateDir, "shared");
    await mkdir(shared);
    const waiting = await runContainer(fixture, "waiting", {
      command: ["sh", "-c", "until test -e /shared/end; do sleep 0.05; done; touch /shared/ended; exit 7"],
      mounts: [{ hostPath: shared, containerPath: "/shared" }],
    });
    await fixture.containerd.kill9();
    const killedAt = Date.now();
    await writeFile(join(shared, "end"), "");
    await pollUntil("the end of the container", 5_000, () => existsSync(join(shared, "ended")));
    const endedAt = Date.now();
    await fixture.containerd.restart();
    const { state, exitCode, reason, finishedAt } = await fixture.runtime.containerStatus(waiting);
    expect(state).toBe(ContainerState.CONTAINER_EXITED);
    // Releases from 1.7 on remove a shim that has no process left when they start, and lose the code.
    expect({ exitCode, reason }).toEqual(
      keepsExitCode ? { exitCode: 7, reason: "Error" } : { exitCode: 255, reason: "Unknown" },
    );
    if (!keepsExitCode) return;
    const finishedMs = Number(finishedAt / 1_000_000n);
    expect(finishedMs).toBeGreaterThanOrEqual(killedAt);
    expect(finishedMs).toBeLessThan(endedAt + 1_000);
  });

  test("a call to a runtime that hangs is DEADLINE_EXCEEDED; the next call after it continues succeeds", async () => {
    const { pid } = fixture.containerd;
    // kill(0) would stop our own process group.
    expect(pid).toBeGreaterThan(0);
    process.kill(pid, "SIGSTOP");
    try {
      await pollUntil("every thread of containerd to stop", 5_000, () => isStopped(pid));
      expect(await failureOf(fixture.runtime.version({ deadlineMs: 200 }))).toMatchObject({
        code: "DEADLINE_EXCEEDED",
      });
    } finally {
      process.kill(pid, "SIGCONT");
    }
    expect((await fixture.runtime.version()).runtimeName).toBe("containerd");
  });

  test("each call is reported with its result and its duration", async () => {
    await fixture.runtime.execSync(container, ["true"], 60);
    expect(await failureOf(fixture.runtime.execSync(container, ["sleep", "60"], 1))).toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    const execs = fixture.calls.filter(({ verb }) => verb === "ExecSync");
    expect(execs.map(({ code }) => code)).toEqual(["OK", "OK", "DEADLINE_EXCEEDED"]);
    expect(execs.at(-1)?.durationMs).toBeGreaterThanOrEqual(1_000);
    expect(fixture.calls).toContainEqual({
      verb: "Version",
      isOfCri: true,
      code: "OK",
      durationMs: expect.any(Number),
    });
  });
}

/** Asks for SPDY as a client of exec does, and returns the status of the answer. */
function upgradeStatus(url: string): Promise<number> {
  const headers = { connection: "upgrade", upgrade: "SPDY/3.1", "x-stream-protocol-version": "v4.channel.k8s.io" };
  return new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", headers, agent: false });
    sent.on("upgrade", ({ statusCode }, socket) => {
      socket.destroy();
      resolve(statusCode ?? 0);
    });
    sent.on("response", (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", reject);
    sent.end();
  });
}

interface ContainerdFixture {
  readonly containerd: Containerd;
  readonly runtime: CriRuntime;
  readonly stateDir: string;
  /** The calls that have ended. */
  readonly calls: readonly CallRecord[];
  readonly log: Log;
  readonly logLines: readonly { readonly level: string; readonly message: string }[];
  end(): Promise<void>;
}

async function startFixture(version: ContainerdVersion, runc?: string): Promise<ContainerdFixture> {
  const stateDir = await mkdtemp(join(tmpdir(), "berth-contract-"));
  // The processes of pods with user namespaces have to traverse this directory.
  await chmod(stateDir, 0o711);
  const containerd = await startContainerd({ version, stateDir: stateDir, ...(runc !== undefined && { runc }) });
  await importImages(containerd);
  const logLines: { level: string; message: string }[] = [];
  const record = (level: string) => (_: unknown, message: string) => void logLines.push({ level, message });
  const log: Log = {
    debug: record("debug"),
    info: record("info"),
    warn: record("warn"),
    error: record("error"),
    child: () => log,
  };
  const { endpoint } = containerd;
  const calls: CallRecord[] = [];
  const onCall = (call: CallRecord) => void calls.push(call);
  const { random } = Math;
  const runtime = createRuntime({ endpoint, requestTimeoutMs: 120_000, clock: createClock(), log, random, onCall });
  const end = async () => {
    runtime.close();
    await containerd.stop();
    await rm(stateDir, { recursive: true });
  };
  return { containerd, runtime, calls, stateDir, log, logLines, end };
}

/** Kills containerd, deletes its record of the container's state, which it writes last, and starts it again. */
async function loseState({ containerd }: ContainerdFixture, id: ContainerId): Promise<void> {
  await containerd.kill9();
  await rm(join(bedPaths(containerd.record.stateDir).root, "io.containerd.grpc.v1.cri/containers", id, "status"));
  await containerd.restart();
}

/** Runs a container that writes `tick` to its log every tenth of a second. */
const runTicker = (fixture: ContainerdFixture) =>
  runContainer(fixture, "ticker", { command: ["sh", "-c", "while true; do echo tick; sleep 0.1; done"] });

/** Runs a pod with one container. Returns the container's id. */
async function runContainer(
  { runtime, stateDir }: ContainerdFixture,
  name: string,
  container: Parameters<typeof ContainerConfig.fromPartial>[0],
): Promise<ContainerId> {
  const config = PodSandboxConfig.fromPartial({
    metadata: { name, uid: name, namespace: "contract" },
    logDirectory: join(stateDir, "logs", name),
    linux: {},
  });
  const sandbox = await runtime.runPodSandbox(config, "");
  const id = await runtime.createContainer(
    sandbox,
    ContainerConfig.fromPartial({
      metadata: { name },
      image: { image: busyboxImage },
      logPath: `${name}.log`,
      linux: {},
      ...container,
    }),
    config,
  );
  await runtime.startContainer(id);
  return id;
}

function collectEvents(runtime: CriRuntime) {
  const received: RuntimeEvent[] = [];
  const listener = new AbortController();
  const following = runtime.events((event) => received.push(event), listener.signal);
  const stopListening = async () => {
    listener.abort();
    await following;
  };
  return { received, stopListening };
}
