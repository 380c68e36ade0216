import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import type { ContainerChange } from "../../../cri/runtime.ts";
import { FilesError } from "../../../host/fs/files.ts";
import { ContainerConfig, PodSandboxConfig } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { MutationEffect } from "../../decide/pod/mutation-effect.ts";
import type { ObservedContainer } from "../../decide/pod/observed.ts";
import { createObservedImages } from "../image-presence.ts";
import { createPodCache } from "./pod-cache.ts";
import { createPodDirReader } from "./pod-dirs.ts";
import { createTerminationMessages } from "./termination-message.ts";

const uid = "u-web" as PodUid;
const labels = {
  "io.kubernetes.pod.uid": uid,
  "io.kubernetes.pod.name": "web",
  "io.kubernetes.pod.namespace": "shop",
};
const sandboxConfig = PodSandboxConfig.fromPartial({ metadata: { uid, name: "web", namespace: "shop" }, labels });
const containerConfig = (name: string, attempt = 0) =>
  ContainerConfig.fromPartial({ metadata: { name, attempt }, image: { image: "busybox:1" }, labels });
const pod: Pod = {
  metadata: { uid, name: "web", namespace: "shop" },
  spec: { containers: [{ name: "a", image: "busybox:1" }] },
};
const desired: DesiredPod = { uid, pod, source: { kind: "file", path: "/m/web.yaml" }, acceptedAt: 0, revision: 0 };

/** A container right after CreateContainer. */
const createdContainer = (name: string, id: ContainerId, sandboxId: SandboxId): ObservedContainer => ({
  state: "created",
  id,
  name,
  sandboxId,
  attempt: 0,
  createdAt: 0,
  image: "busybox:1",
  imageRef: "",
  crashes: 0,
  hash: undefined,
});

/** A node with one pod, whose container `a` runs; the cache is empty. */
async function createFixture() {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  const disk = new FakeDisk(clock.now);
  const log = new FakeLog();
  const woken: PodUid[] = [];
  runtime.addImage("busybox:1");
  const pods = createPodCache({
    runtime,
    images: createObservedImages({ runtime, clock }),
    podCgroups: undefined,
    podDirs: createPodDirReader(disk.at("/root"), disk.at("/logs")),
    terminationMessages: createTerminationMessages(disk.at("/root"), disk.at("/logs")),
    clock,
    log,
    wake: (each) => woken.push(each),
  });
  const sandbox = await runtime.runPodSandbox(sandboxConfig, "");
  const create = (name: string, attempt = 0) =>
    runtime.createContainer(sandbox, containerConfig(name, attempt), sandboxConfig);
  const container = await create("a");
  await runtime.startContainer(container);
  return { clock, runtime, disk, log, woken, pods, sandbox, container, create };
}

/** The same after one observation, with an empty journal. */
async function createReadFixture() {
  const fixture = await createFixture();
  await fixture.pods.relist();
  await fixture.pods.observe(uid, desired);
  fixture.runtime.calls.length = 0;
  fixture.woken.length = 0;
  const look = async () => {
    const { containers, sandboxes } = await fixture.pods.observe(uid, desired);
    return [
      ...sandboxes.map(({ ready }) => `sandbox ${ready ? "ready" : "not ready"}`),
      ...containers.map(({ name, attempt, state }) => `${name} #${attempt} ${state}`),
    ];
  };
  const receive = (change: ContainerChange, containerId: string) =>
    fixture.pods.handleEvent({ kind: "container", change, containerId, isSandbox: undefined });
  return { ...fixture, look, receive };
}

test("observations fail before the first list", async () => {
  const { pods, runtime } = await createFixture();
  runtime.calls.length = 0;
  await expect(pods.observe(uid, desired)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(runtime.calls).toEqual([]);
});

test("the first list wakes every listed pod, and each pod that has only a directory", async () => {
  const { pods, woken, disk } = await createFixture();
  await disk.at("/root").makeFolder("pods/u-old-pod", 0o755);
  await disk.at("/root").makeFolder(`pods/${uid}`, 0o755);
  await pods.relist();
  expect(woken as readonly string[]).toEqual([uid, "u-old-pod"]);
});

test("a pod with only logs left is woken, and has its name", async () => {
  const { pods, woken, disk } = await createFixture();
  const old = "u-old-pod" as PodUid;
  await disk.at("/logs").makeFolder(`shop_gone_${old}/a`, 0o755);
  await pods.relist();
  expect(woken).toContain(old);
  expect(await pods.observe(old, undefined)).toMatchObject({
    namespace: "shop",
    name: "gone",
    resources: [{ of: "logDir" }],
  });
});

test("a pod that has only a directory gets its name when it is desired again", async () => {
  const { pods, disk } = await createFixture();
  const old = "u-old-pod" as PodUid;
  await disk.at("/root").makeFolder(`pods/${old}`, 0o755);
  await pods.relist();
  expect(await pods.observe(old, undefined)).toMatchObject({ name: "", resources: [{ of: "podDirs" }] });
  const expected = { ...pod, metadata: { ...pod.metadata, uid: old } };
  await disk.at("/logs").makeFolder(`shop_web_${old}/a`, 0o755);
  await disk.at("/logs").write(`shop_web_${old}/a/3.log`, "", 0o640);
  const { name, loggedAttempts } = await pods.observe(old, { ...desired, uid: old, pod: expected });
  expect(name).toBe("web");
  expect([...loggedAttempts]).toEqual([["a", 3]]);
});

test("a pod is read once, and an idle pod costs no further call", async () => {
  const { look, runtime } = await createReadFixture();
  for (let turn = 0; turn < 3; turn++) expect(await look()).toEqual(["sandbox ready", "a #0 running"]);
  expect(runtime.calls).toEqual([]);
});

test("a pod without sandboxes is empty, and has the name of its desired pod", async () => {
  const { pods } = await createReadFixture();
  const other = { ...desired, uid: "u-new" as PodUid, pod: { ...pod, metadata: { ...pod.metadata, name: "new" } } };
  const seen = await pods.observe(other.uid, other);
  expect(seen).toMatchObject({ namespace: "shop", name: "new", sandboxes: [], containers: [], resources: [] });
});

test("the files of a new pod are not read, unless the last list has found some or cannot find them", async () => {
  const { pods, disk } = await createFixture();
  const read: string[] = [];
  const names = ["u-new-pod", "u-old-pod", "short", "u_new_pod"];
  await disk.at("/root").makeFolder("pods/u-old-pod", 0o755);
  await pods.relist();
  disk.before = (verb, path) => {
    if (verb === "stat" && names.some((name) => path.endsWith(`/pods/${name}`))) read.push(path);
  };
  for (const name of names) {
    const metadata = { uid: name, name, namespace: "shop" };
    await pods.observe(name as PodUid, { ...desired, uid: name as PodUid, pod: { ...pod, metadata } });
  }
  expect(read).toEqual(["/root/pods/u-old-pod", "/root/pods/short", "/root/pods/u_new_pod"]);
});

test("newer instances come before older ones", async () => {
  const { pods, create, container, runtime } = await createFixture();
  runtime.exit(container, 1);
  for (const attempt of [2, 1]) await create("a", attempt);
  await pods.relist();
  const seen = await pods.observe(uid, desired);
  expect(seen.containers.map(({ attempt }) => attempt)).toEqual([2, 1, 0]);
});

test("only the images of containers that do not run are requested", async () => {
  const { look, receive, runtime, container } = await createReadFixture();
  expect(runtime.calls).toEqual([]);
  runtime.exit(container, 1);
  receive("stopped", container);
  await look();
  expect(runtime.calls).toContain("imageStatus busybox:1");
});

test("an older running instance does not suppress the image of the exited newest one", async () => {
  const { pods, runtime, create } = await createReadFixture();
  const newer = await create("a", 1);
  await runtime.startContainer(newer);
  runtime.exit(newer, 1);
  pods.endMutation(uid, { kind: "everything" });
  const { images } = await pods.observe(uid, desired);
  expect([...images.keys()]).toEqual(["busybox:1"]);
});

const touches: readonly [
  sentence: string,
  touched: (ids: { sandbox: SandboxId; container: ContainerId }) => MutationEffect,
  calls: readonly string[],
][] = [
  ["that changed nothing costs no call", () => ({ kind: "nothing" }), []],
  ["that changed files costs no call to the runtime", () => ({ kind: "files" }), []],
  [
    "that changed a container costs its status",
    ({ container }) => ({ kind: "container", id: container }),
    ["containerStatus shop/web/a #0"],
  ],
  [
    "that changed a sandbox costs its status",
    ({ sandbox }) => ({ kind: "sandbox", id: sandbox }),
    ["podSandboxStatus sandbox-1"],
  ],
  [
    "that may have changed anything costs two lists and every status",
    () => ({ kind: "everything" }),
    [`listPodSandbox ${uid}`, `listContainers ${uid}`, "podSandboxStatus sandbox-1", "containerStatus shop/web/a #0"],
  ],
];
for (const [sentence, touched, calls] of touches)
  test(`a call ${sentence}`, async () => {
    const { look, pods, runtime, sandbox, container } = await createReadFixture();
    pods.beginMutation(uid);
    pods.endMutation(uid, touched({ sandbox, container }));
    await look();
    expect(runtime.calls).toEqual([...calls]);
    await look();
    expect(runtime.calls).toHaveLength(calls.length);
  });

test("a pod that becomes stale during its list is listed again", async () => {
  const { look, pods, runtime } = await createReadFixture();
  const lists = () => runtime.calls.filter((call) => call.startsWith("listContainers")).length;
  runtime.after.listContainers = async () => {
    delete runtime.after.listContainers;
    pods.endMutation(uid, { kind: "everything" });
  };
  pods.endMutation(uid, { kind: "everything" });
  await look();
  expect(lists()).toBe(1);
  await look();
  expect(lists()).toBe(2);
  await look();
  expect(lists()).toBe(2);
});

test("a created container is known without a read, and its event costs nothing", async () => {
  const { look, receive, pods, runtime, sandbox, create } = await createReadFixture();
  pods.beginMutation(uid);
  const id = await create("b");
  pods.endMutation(uid, { kind: "created", container: createdContainer("b", id, sandbox) });
  runtime.calls.length = 0;
  expect(receive("created", id)).toBe("known");
  expect(await look()).toEqual(["sandbox ready", "a #0 running", "b #0 created"]);
  receive("created", id);
  await look();
  expect(runtime.calls).toEqual([]);
});

for (const kind of ["files", "everything"] as const)
  test(`the directories are read again after a call that changed ${kind}`, async () => {
    const { pods, disk } = await createReadFixture();
    await disk.at("/root").makeFolder(`pods/${uid}`, 0o755);
    expect((await pods.observe(uid, desired)).resources).toEqual([]);
    pods.endMutation(uid, { kind });
    expect((await pods.observe(uid, desired)).resources).toEqual([{ of: "podDirs" }]);
  });

test("a hook that succeeds while the directories are read does not become pending again", async () => {
  const { pods, disk, container } = await createReadFixture();
  const mark = `pods/${uid}/containers/a/post-start-00000000`;
  await disk.at("/root").makeFolder(`pods/${uid}/containers/a`, 0o755);
  await disk.at("/root").makeFile(mark, 0o600);
  pods.endMutation(uid, { kind: "files" });
  let observations = 0;
  disk.after = async (verb, path) => {
    if (verb !== "list" || !path.endsWith("/containers/a") || observations++ > 0) return;
    await disk.at("/root").remove(mark);
    pods.endMutation(uid, { kind: "hook", id: container, instance: "a #0", isPending: false });
  };
  expect([...(await pods.observe(uid, desired)).pendingPostStartHooks]).toEqual([]);
  expect(observations).toBe(2);
});

test("directories that our call created are known without a read", async () => {
  const { pods, disk } = await createReadFixture();
  disk.before = (verb, path) => {
    throw new Error(`${verb} ${path}`);
  };
  pods.endMutation(uid, { kind: "resourceMade", resource: { of: "podDirs" } });
  expect((await pods.observe(uid, desired)).resources).toEqual([{ of: "podDirs" }]);
});

test("an event wakes its pod, and the pod's sync reads the change", async () => {
  const { look, receive, runtime, woken, container } = await createReadFixture();
  runtime.exit(container, 3);
  expect(receive("stopped", container)).toBe("known");
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready", "a #0 exited"]);
});

test("the exit event of our own stop does not wake the pod: the end of the stop does", async () => {
  const { pods, look, receive, runtime, woken, container } = await createReadFixture();
  pods.beginMutation(uid, container);
  runtime.exit(container, 143);
  expect({ received: receive("stopped", container), woken }).toEqual({ received: "known", woken: [] });
  pods.endMutation(uid, { kind: "container", id: container }, container);
  expect(await look()).toContain("a #0 exited");
  expect(runtime.calls).toEqual(["containerStatus shop/web/a #0", "imageStatus busybox:1"]);
});

test("an event of an unknown container of a known pod leads to a list of the pod", async () => {
  const { look, pods, runtime, sandbox } = await createReadFixture();
  const id = runtime.addForeignContainer(sandbox, containerConfig("b"));
  pods.handleEvent({ kind: "container", change: "started", containerId: id, podUid: uid, isSandbox: false });
  expect(await look()).toEqual(["sandbox ready", "a #0 running", "b #0 running"]);
});

test("an event of a container without a pod is ignored", async () => {
  const { receive, woken } = await createReadFixture();
  expect(receive("started", "who")).toBe("unknown");
  expect(woken).toEqual([]);
});

test("a container that was removed without an event is dropped when its status is read", async () => {
  const { look, receive, runtime, container } = await createReadFixture();
  runtime.loseContainer(container);
  receive("deleted", container);
  expect(await look()).toEqual(["sandbox ready"]);
});

test("a failed observation is repeated completely", async () => {
  const { look, receive, runtime, container } = await createReadFixture();
  runtime.exit(container, 1);
  receive("stopped", container);
  runtime.failures.containerStatus = [new CriError("DEADLINE_EXCEEDED", "ContainerStatus", "no answer")];
  await expect(look()).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  expect(await look()).toEqual(["sandbox ready", "a #0 exited"]);
});

test("a relist wakes only the pods that have changed", async () => {
  const { pods, look, runtime, woken, container } = await createReadFixture();
  await pods.relist();
  expect(woken).toEqual([]);
  runtime.exit(container, 1);
  await pods.relist();
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready", "a #0 exited"]);
});

test("a relist finds what other clients removed", async () => {
  const { pods, look, runtime, woken, container } = await createReadFixture();
  runtime.loseContainer(container);
  await pods.relist();
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready"]);
});

/*
 * 1. the relist requests all containers       3. our call creates a container, and its sync reads it
 * 2. the runtime builds the list              4. the list arrives, without the container
 */
test("a list that crosses our own call does not remove the created container", async () => {
  const { pods, look, runtime, woken, sandbox, create } = await createReadFixture();
  const answer = Promise.withResolvers<void>();
  runtime.after.listContainers = () => answer.promise;
  const audit = pods.relist();
  await settlePromises();
  delete runtime.after.listContainers;
  pods.beginMutation(uid);
  const id = await create("b");
  pods.endMutation(uid, { kind: "created", container: createdContainer("b", id, sandbox) });
  const all = ["sandbox ready", "a #0 running", "b #0 created"];
  expect(await look()).toEqual(all);
  answer.resolve();
  await audit;
  expect(await look()).toEqual(all);
  expect(woken).toContain(uid);
});

test("a list that starts during our call is ignored for its pod", async () => {
  const { pods, look, runtime, sandbox, create } = await createReadFixture();
  const letGo = runtime.hang("createContainer");
  pods.beginMutation(uid);
  const created = create("b");
  const answer = Promise.withResolvers<void>();
  runtime.after.listContainers = () => answer.promise;
  const audit = pods.relist();
  await settlePromises();
  delete runtime.after.listContainers;
  letGo();
  pods.endMutation(uid, { kind: "created", container: createdContainer("b", await created, sandbox) });
  await look();
  answer.resolve();
  await audit;
  expect(await look()).toEqual(["sandbox ready", "a #0 running", "b #0 created"]);
});

/*
 * 1. an observation requests a status           3. the relist shows the exit, and the pod is woken
 * 2. the runtime reads it; then the container   4. the status arrives, from before the exit
 *    exits, and its event is lost
 */
test("a change that a relist finds during an older status read is read by the next observation", async () => {
  const { pods, look, runtime, woken, container } = await createReadFixture();
  const answer = Promise.withResolvers<void>();
  runtime.after.containerStatus = () => answer.promise;
  pods.endMutation(uid, { kind: "container", id: container });
  const looking = look();
  await settlePromises();
  delete runtime.after.containerStatus;
  runtime.exit(container, 1);
  await pods.relist();
  answer.resolve();
  expect(await looking).toEqual(["sandbox ready", "a #0 running"]);
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready", "a #0 exited"]);
});

/*
 * 1. an observation requests two statuses       3. `b` exits, and the next observation reads it
 * 2. that of `a` fails, that of `b` is late     4. the late status arrives, from before the exit
 */
test("a status that is late when another one fails does not overwrite what the next observation reads", async () => {
  const { pods, look, receive, runtime, container, create } = await createReadFixture();
  const other = await create("b");
  await runtime.startContainer(other);
  pods.endMutation(uid, { kind: "everything" });
  await look();
  for (const id of [container, other]) pods.endMutation(uid, { kind: "container", id });
  runtime.failures.containerStatus = [new CriError("DEADLINE_EXCEEDED", "ContainerStatus", "no answer")];
  const answer = Promise.withResolvers<void>();
  runtime.after.containerStatus = () => {
    delete runtime.after.containerStatus;
    return answer.promise;
  };
  const retried = look().catch(() => {
    runtime.exit(other, 1);
    receive("stopped", other);
    return look();
  });
  await settlePromises();
  answer.resolve();
  await retried;
  expect(await look()).toEqual(["sandbox ready", "a #0 running", "b #0 exited"]);
});

test("after a disconnect observations fail until the next relist, which wakes every pod", async () => {
  const { pods, look, woken } = await createReadFixture();
  pods.markDisconnected();
  await expect(look()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await pods.relist();
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready", "a #0 running"]);
});

test("observations fail with the reason and the socket until everything is listed", async () => {
  const { pods, runtime, disk } = await createFixture();
  const why = () =>
    pods.observe(uid, desired).then(
      () => "it was seen",
      (error: Error) => error.message,
    );
  expect(await why()).toBe("the container runtime has not been listed yet");
  const error = new CriError("UNAVAILABLE", "Version", "connect ENOENT");
  pods.markDisconnected({ error, socket: "/run/x.sock" });
  const away = "the container runtime is away (reconnecting to /run/x.sock): Version: connect ENOENT";
  expect(await why()).toBe(away);
  pods.markDisconnected();
  expect(await why()).toBe(away);
  runtime.failures.listContainers = [new CriError("UNKNOWN", "ListContainers", "no such table")];
  await pods.relist().catch(() => "said below");
  expect(await why()).toBe("cannot list the pods and containers of the runtime: ListContainers: no such table");
  disk.before = (verb, path) => {
    if (verb === "list") throw new FilesError("EIO", path, `${path} failed: input/output error`);
  };
  await pods.relist().catch(() => "said below");
  expect(await why()).toBe("cannot list the pod directories: /root/pods failed: input/output error");
  disk.before = () => {};
  await pods.relist();
  expect(await why()).toBe("it was seen");
});

test("a removed pod is dropped with its containers", async () => {
  const { pods, receive, container } = await createReadFixture();
  pods.forget(uid);
  expect(receive("stopped", container)).toBe("unknown");
});

/** Observes the pod whenever it is woken, and returns the times of the observations in milliseconds. */
async function lookWhenWoken({ clock, woken, look }: Awaited<ReturnType<typeof createReadFixture>>, ms: number) {
  const observations: string[] = [];
  const start = clock.elapsedMs;
  while (clock.elapsedMs - start <= ms) {
    if (woken.splice(0).length > 0) observations.push(`${clock.elapsedMs - start} ms: ${(await look()).at(-1)}`);
    // Nothing changes before the next timer, and a minute has many milliseconds.
    const leftMs = start + ms + 1 - clock.elapsedMs;
    await clock.advance(Math.max(1, Math.min(leftMs, clock.nextTimerInMs ?? leftMs)));
  }
  return observations;
}

test("an exit that the runtime does not show yet is read again after 5, 10, 20 ms … and each second, and discarded after 41 s", async () => {
  const fixture = await createReadFixture();
  fixture.receive("stopped", fixture.container);
  const observations = await lookWhenWoken(fixture, 60_000);
  const seconds = Array.from({ length: 40 }, (_, at) => 2275 + at * 1000);
  const times = [0, 5, 15, 35, 75, 155, 315, 635, 1275, ...seconds];
  expect(observations).toEqual(times.map((ms) => `${ms} ms: a #0 running`));
  fixture.receive("stopped", fixture.container);
  expect(await lookWhenWoken(fixture, 20)).toEqual(["0 ms", "5 ms", "15 ms"].map((at) => `${at}: a #0 running`));
});

test("a forgotten pod is not woken for an exit that the runtime does not show yet", async () => {
  const { pods, look, receive, clock, woken, container } = await createReadFixture();
  receive("stopped", container);
  await look();
  pods.forget(uid);
  woken.length = 0;
  await clock.advance(5);
  expect(woken).toEqual([]);
});

test("an exit that the runtime shows a moment later is observed then, and not read again", async () => {
  const fixture = await createReadFixture();
  fixture.receive("stopped", fixture.container);
  fixture.clock.wakeAt(fixture.clock.now() + 12, () => fixture.runtime.exit(fixture.container, 0));
  expect(await lookWhenWoken(fixture, 1000)).toEqual([
    "0 ms: a #0 running",
    "5 ms: a #0 running",
    "15 ms: a #0 exited",
  ]);
});

/**
 * A pod whose container got an exit event. Each observation returns the state, and whether only the event reports the
 * exit.
 */
async function createReportedFixture(exitCode: number) {
  const fixture = await createReadFixture();
  const finishedAt = BigInt(fixture.clock.now()) * 1_000_000n;
  const stop = { kind: "container", change: "stopped", containerId: fixture.container, isSandbox: undefined } as const;
  fixture.pods.handleEvent({ ...stop, exit: { exitCode, finishedAt } });
  const look = async () => {
    const { hasUnconfirmedExit = false, containers } = await fixture.pods.observe(uid, desired);
    const [container] = containers;
    const end = container?.state === "exited" ? `${container.reason} ${container.exitCode}` : container?.state;
    return [`${end}${hasUnconfirmedExit ? ", not shown yet" : ""}`];
  };
  return { ...fixture, look, finishedAt };
}

test("the exit of an event is used until the runtime shows it, too", async () => {
  const fixture = await createReportedFixture(3);
  fixture.clock.wakeAt(fixture.clock.now() + 12, () => fixture.runtime.exit(fixture.container, 3));
  expect(await lookWhenWoken(fixture, 1000)).toEqual([
    "0 ms: Error 3, not shown yet",
    "5 ms: Error 3, not shown yet",
    "15 ms: Error 3",
  ]);
});

test("an exit known only from an event has the fields that the status is going to show", async () => {
  const { pods, finishedAt } = await createReportedFixture(0);
  const { containers, hasUnconfirmedExit } = await pods.observe(uid, desired);
  const end = { state: "exited", exitCode: 0, reason: "Completed", finishedAt: Number(finishedAt / 1_000_000n) };
  expect({ isAhead: hasUnconfirmedExit, container: containers[0] }).toMatchObject({ isAhead: true, container: end });
});

test("the event of a SIGKILL exit is not used, since only the status shows whether it was an OOM kill", async () => {
  const fixture = await createReportedFixture(137);
  fixture.clock.wakeAt(fixture.clock.now() + 2, () => fixture.runtime.exit(fixture.container, 137, "OOMKilled"));
  expect(await lookWhenWoken(fixture, 1000)).toEqual(["0 ms: running", "5 ms: OOMKilled 137"]);
});

test("a SIGKILL exit is read again, since the runtime may learn of the OOM kill later", async () => {
  const fixture = await createReportedFixture(137);
  fixture.runtime.exit(fixture.container, 137);
  fixture.clock.wakeAt(fixture.clock.now() + 400, () => fixture.runtime.setExitReason(fixture.container, "OOMKilled"));
  expect(await lookWhenWoken(fixture, 10_000)).toEqual([
    "0 ms: Error 137",
    "20 ms: Error 137",
    "100 ms: Error 137",
    "1000 ms: OOMKilled 137",
  ]);
});

test("an exit by another code is final at once: no timer waits for an OOM kill", async () => {
  const fixture = await createReportedFixture(3);
  fixture.runtime.exit(fixture.container, 3);
  const before = fixture.clock.pendingTimers;
  expect(await fixture.look()).toEqual(["Error 3"]);
  expect(fixture.clock.pendingTimers).toBeLessThanOrEqual(before);
});

test("a SIGKILL exit without OOMKilled is final after 5 s, and at once if it is found later", async () => {
  const fixture = await createReportedFixture(137);
  fixture.runtime.exit(fixture.container, 137);
  const times = [0, 20, 100, 1000, 5000];
  expect(await lookWhenWoken(fixture, 60_000)).toEqual(times.map((ms) => `${ms} ms: Error 137`));
  fixture.pods.forget(uid);
  await fixture.pods.relist();
  expect(await lookWhenWoken(fixture, 60_000)).toEqual(["0 ms: Error 137"]);
});

test("an exit that the runtime never shows is discarded after 41 s", async () => {
  const fixture = await createReportedFixture(0);
  const observations = await lookWhenWoken(fixture, 60_000);
  expect(observations.slice(-2)).toEqual(["40275 ms: Completed 0, not shown yet", "41275 ms: running"]);
  expect(observations).toHaveLength(49);
});

test("an exit that a busy runtime shows after seconds is not discarded", async () => {
  const fixture = await createReportedFixture(3);
  fixture.clock.wakeAt(fixture.clock.now() + 3000, () => fixture.runtime.exit(fixture.container, 3));
  const observations = await lookWhenWoken(fixture, 10_000);
  expect(observations.filter((look) => look.endsWith("running"))).toEqual([]);
  expect(observations.at(-1)).toBe("3275 ms: Error 3");
});

test("the exit of an event wins over the made-up one of a runtime that was killed before it saved the exit", async () => {
  const fixture = await createReportedFixture(3);
  fixture.clock.wakeAt(fixture.clock.now() + 12, () => fixture.runtime.exit(fixture.container, 255, "Unknown"));
  expect((await lookWhenWoken(fixture, 1000)).at(-1)).toBe("15 ms: Error 3");
});

test("the exit of an event is kept when the runtime cannot be read", async () => {
  const fixture = await createReportedFixture(3);
  fixture.runtime.failures.containerStatus = [new CriError("UNAVAILABLE", "ContainerStatus", "gone")];
  await expect(fixture.pods.observe(uid, desired)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  fixture.clock.wakeAt(fixture.clock.now() + 3, () => fixture.runtime.exit(fixture.container, 3));
  expect(await lookWhenWoken(fixture, 1000)).toEqual(["0 ms: Error 3, not shown yet", "5 ms: Error 3"]);
});

const noAnswer = () => [new CriError("DEADLINE_EXCEEDED", "ContainerStatus", "no answer")];

test("a stop that the status does not show yet is read again, also after a failed observation", async () => {
  const fixture = await createReadFixture();
  fixture.receive("stopped", fixture.container);
  fixture.runtime.failures.containerStatus = noAnswer();
  await expect(fixture.look()).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  fixture.clock.wakeAt(fixture.clock.now() + 3, () => fixture.runtime.exit(fixture.container, 0));
  expect(await lookWhenWoken(fixture, 1000)).toEqual(["0 ms: a #0 running", "5 ms: a #0 exited"]);
});

test("a SIGKILL exit is read again for its reason, also if another read of its observation fails", async () => {
  const fixture = await createReadFixture();
  const { pods, runtime, look, woken, container, create } = fixture;
  const other = await create("b");
  pods.endMutation(uid, { kind: "everything" });
  await look();
  runtime.exit(container, 137);
  for (const id of [other, container]) pods.endMutation(uid, { kind: "container", id });
  runtime.failures.containerStatus = noAnswer();
  await expect(look()).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  await look();
  expect(woken).toEqual([]);
  await fixture.clock.advance(20);
  expect(woken).toEqual([uid]);
});

for (const isRead of [true, false])
  test(`an exit right after our own start is read again${isRead ? "" : ", even if the container was never read before"}`, async () => {
    const fixture = await createReadFixture();
    const { pods, sandbox, runtime } = fixture;
    pods.beginMutation(uid);
    const id = await fixture.create("b");
    pods.endMutation(uid, { kind: "created", container: createdContainer("b", id, sandbox) });
    if (isRead) await fixture.look();
    pods.beginMutation(uid);
    await runtime.startContainer(id);
    pods.endMutation(uid, { kind: "container", id });
    fixture.receive("started", id);
    fixture.receive("stopped", id);
    fixture.clock.wakeAt(fixture.clock.now() + 3, () => runtime.exit(id, 0));
    expect(await lookWhenWoken(fixture, 1000)).toEqual(["0 ms: b #0 running", "5 ms: b #0 exited"]);
  });

test("a sandbox or container without a pod is logged once, and its events are ignored", async () => {
  const { pods, receive, runtime, log, woken } = await createReadFixture();
  const stranger = runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata: { name: "who" } }));
  const container = runtime.addForeignContainer(stranger, ContainerConfig.fromPartial({ metadata: { name: "what" } }));
  await pods.relist();
  await pods.relist();
  const sentence = "info: ignoring a sandbox or container that belongs to no pod";
  expect(log.lines.map(({ fields }) => fields["id"])).toEqual([stranger, container]);
  expect(log.takeLines()).toEqual([sentence, sentence]);
  expect(receive("stopped", container)).toBe("known");
  expect(woken).toEqual([]);
});
