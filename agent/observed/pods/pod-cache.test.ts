import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import type { ContainerChange } from "../../../cri/runtime.ts";
import { ContainerConfig, PodSandboxConfig } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ObservedContainer } from "../../decide/pod/observed.ts";
import { createObservedImages } from "../images.ts";
import { createObservedPods, type Touched } from "./pod-cache.ts";
import { createPodFiles } from "./pod-dirs.ts";
import { createLastWords } from "./termination-message.ts";

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

/** What the answer to CreateContainer tells of a container. */
const made = (name: string, id: ContainerId, sandboxId: SandboxId): ObservedContainer => ({
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

/** A node with one pod, whose container `a` runs; nothing of it has been read yet. */
async function createScene() {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  const disk = new FakeDisk(clock.now);
  const log = new FakeLog();
  const woken: PodUid[] = [];
  runtime.addImage("busybox:1");
  const pods = createObservedPods({
    runtime,
    images: createObservedImages({ runtime, clock }),
    files: createPodFiles(disk.at("/root"), disk.at("/logs")),
    lastWords: createLastWords(disk.at("/root"), disk.at("/logs")),
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

/** The same, read once, with an empty journal. */
async function createReadScene() {
  const scene = await createScene();
  await scene.pods.audit();
  await scene.pods.observe(uid, desired);
  scene.runtime.calls.length = 0;
  scene.woken.length = 0;
  const look = async () => {
    const { containers, sandboxes } = await scene.pods.observe(uid, desired);
    return [
      ...sandboxes.map(({ ready }) => `sandbox ${ready ? "ready" : "not ready"}`),
      ...containers.map(({ name, attempt, state }) => `${name} #${attempt} ${state}`),
    ];
  };
  const hear = (change: ContainerChange, containerId: string) =>
    scene.pods.hear({ kind: "container", change, containerId, isSandbox: undefined });
  return { ...scene, look, hear };
}

test("before everything was listed, nothing can be said of any pod", async () => {
  const { pods, runtime } = await createScene();
  runtime.calls.length = 0;
  await expect(pods.observe(uid, desired)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(runtime.calls).toEqual([]);
});

test("the first list wakes every pod it shows, and each pod that has only a folder", async () => {
  const { pods, woken, disk } = await createScene();
  await disk.at("/root").makeFolder("pods/u-old-pod", 0o755);
  await disk.at("/root").makeFolder(`pods/${uid}`, 0o755);
  await pods.audit();
  expect(woken as readonly string[]).toEqual([uid, "u-old-pod"]);
});

test("a pod of which only logs are left is woken, and known by its name", async () => {
  const { pods, woken, disk } = await createScene();
  const old = "u-old-pod" as PodUid;
  await disk.at("/logs").makeFolder(`shop_gone_${old}/a`, 0o755);
  await pods.audit();
  expect(woken).toContain(old);
  expect(await pods.observe(old, undefined)).toMatchObject({ namespace: "shop", name: "gone", hasFiles: true });
});

test("a pod that was found by its folder alone gets its name from whoever wants it again", async () => {
  const { pods, disk } = await createScene();
  const old = "u-old-pod" as PodUid;
  await disk.at("/root").makeFolder(`pods/${old}`, 0o755);
  await pods.audit();
  expect(await pods.observe(old, undefined)).toMatchObject({ name: "", hasFiles: true });
  const wanted = { ...pod, metadata: { ...pod.metadata, uid: old } };
  await disk.at("/logs").makeFolder(`shop_web_${old}/a`, 0o755);
  await disk.at("/logs").write(`shop_web_${old}/a/3.log`, "", 0o640);
  const { name, loggedAttempts } = await pods.observe(old, { ...desired, uid: old, pod: wanted });
  expect(name).toBe("web");
  expect([...loggedAttempts]).toEqual([["a", 3]]);
});

test("a pod is read once, and at rest a look costs no call", async () => {
  const { look, runtime } = await createReadScene();
  for (let turn = 0; turn < 3; turn++) expect(await look()).toEqual(["sandbox ready", "a #0 running"]);
  expect(runtime.calls).toEqual([]);
});

test("a pod that the runtime does not show is empty, and known by its name", async () => {
  const { pods } = await createReadScene();
  const other = { ...desired, uid: "u-new" as PodUid, pod: { ...pod, metadata: { ...pod.metadata, name: "new" } } };
  const seen = await pods.observe(other.uid, other);
  expect(seen).toMatchObject({ namespace: "shop", name: "new", sandboxes: [], containers: [], hasFiles: false });
});

test("newer instances stand before older ones", async () => {
  const { pods, create, container, runtime } = await createScene();
  runtime.exit(container, 1);
  for (const attempt of [2, 1]) await create("a", attempt);
  await pods.audit();
  const seen = await pods.observe(uid, desired);
  expect(seen.containers.map(({ attempt }) => attempt)).toEqual([2, 1, 0]);
});

test("only the images of containers that do not live are asked for", async () => {
  const { look, hear, runtime, container } = await createReadScene();
  expect(runtime.calls).toEqual([]);
  runtime.exit(container, 1);
  hear("stopped", container);
  await look();
  expect(runtime.calls).toContain("imageStatus busybox:1");
});

test("an older instance that lives hides no image from the newest, which has to be made anew", async () => {
  const { pods, runtime, create } = await createReadScene();
  const newer = await create("a", 1);
  await runtime.startContainer(newer);
  runtime.exit(newer, 1);
  pods.mutated(uid, { kind: "everything" });
  const { images } = await pods.observe(uid, desired);
  expect([...images.keys()]).toEqual(["busybox:1"]);
});

const touches: readonly [
  sentence: string,
  touched: (ids: { sandbox: SandboxId; container: ContainerId }) => Touched,
  calls: readonly string[],
][] = [
  ["that touched nothing costs no call", () => ({ kind: "nothing" }), []],
  ["that touched files costs no call to the runtime", () => ({ kind: "files" }), []],
  [
    "that touched a container costs its status",
    ({ container }) => ({ kind: "container", id: container }),
    ["containerStatus shop/web/a #0"],
  ],
  [
    "that touched a sandbox costs its status",
    ({ sandbox }) => ({ kind: "sandbox", id: sandbox }),
    ["podSandboxStatus sandbox-1"],
  ],
  [
    "that may have touched anything costs two lists and every status",
    () => ({ kind: "everything" }),
    [`listPodSandbox ${uid}`, `listContainers ${uid}`, "podSandboxStatus sandbox-1", "containerStatus shop/web/a #0"],
  ],
];
for (const [sentence, touched, calls] of touches)
  test(`a call ${sentence}`, async () => {
    const { look, pods, runtime, sandbox, container } = await createReadScene();
    pods.mutating(uid);
    pods.mutated(uid, touched({ sandbox, container }));
    await look();
    expect(runtime.calls).toEqual([...calls]);
    await look();
    expect(runtime.calls).toHaveLength(calls.length);
  });

test("what becomes uncertain while it is listed is listed again", async () => {
  const { look, pods, runtime } = await createReadScene();
  const lists = () => runtime.calls.filter((call) => call.startsWith("listContainers")).length;
  runtime.after.listContainers = async () => {
    delete runtime.after.listContainers;
    pods.mutated(uid, { kind: "everything" });
  };
  pods.mutated(uid, { kind: "everything" });
  await look();
  expect(lists()).toBe(1);
  await look();
  expect(lists()).toBe(2);
  await look();
  expect(lists()).toBe(2);
});

test("a container that our call has created is known by the answer, and its echo costs nothing", async () => {
  const { look, hear, pods, runtime, sandbox, create } = await createReadScene();
  pods.mutating(uid);
  const id = await create("b");
  pods.mutated(uid, { kind: "made", container: made("b", id, sandbox) });
  runtime.calls.length = 0;
  expect(hear("created", id)).toBe("known");
  expect(await look()).toEqual(["sandbox ready", "a #0 running", "b #0 created"]);
  hear("created", id);
  await look();
  expect(runtime.calls).toEqual([]);
});

for (const kind of ["files", "everything"] as const)
  test(`files are looked at again after a call that touched ${kind}`, async () => {
    const { pods, disk } = await createReadScene();
    await disk.at("/root").makeFolder(`pods/${uid}`, 0o755);
    expect((await pods.observe(uid, desired)).hasFiles).toBe(false);
    pods.mutated(uid, { kind });
    expect((await pods.observe(uid, desired)).hasFiles).toBe(true);
  });

test("a hook that succeeds while the files are looked at is not taken for pending again", async () => {
  const { pods, disk, container } = await createReadScene();
  const mark = `pods/${uid}/containers/a/post-start-00000000`;
  await disk.at("/root").makeFolder(`pods/${uid}/containers/a`, 0o755);
  await disk.at("/root").makeFile(mark, 0o600);
  pods.mutated(uid, { kind: "files" });
  let looks = 0;
  disk.after = async (verb, path) => {
    if (verb !== "list" || !path.endsWith("/containers/a") || looks++ > 0) return;
    await disk.at("/root").remove(mark);
    pods.mutated(uid, { kind: "hook", id: container, instance: "a #0", isPending: false });
  };
  expect([...(await pods.observe(uid, desired)).pendingHooks]).toEqual([]);
  expect(looks).toBe(2);
});

test("files that our call has made are known without a look", async () => {
  const { pods, disk } = await createReadScene();
  disk.before = (verb, path) => {
    throw new Error(`${verb} ${path}`);
  };
  pods.mutated(uid, { kind: "madeFiles", hasVolumes: false });
  expect((await pods.observe(uid, desired)).hasFiles).toBe(true);
});

test("an event wakes its pod and is read in the pod's own turn", async () => {
  const { look, hear, runtime, woken, container } = await createReadScene();
  runtime.exit(container, 3);
  expect(hear("stopped", container)).toBe("known");
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready", "a #0 exited"]);
});

test("the event of an end that our own stop has brought wakes nobody: the end of the stop does", async () => {
  const { pods, look, hear, runtime, woken, container } = await createReadScene();
  pods.mutating(uid, container);
  runtime.exit(container, 143);
  expect({ heard: hear("stopped", container), woken }).toEqual({ heard: "known", woken: [] });
  pods.mutated(uid, { kind: "container", id: container }, container);
  expect(await look()).toContain("a #0 exited");
  expect(runtime.calls).toEqual(["containerStatus shop/web/a #0", "imageStatus busybox:1"]);
});

test("an event of an unknown container of a known pod makes the pod be listed", async () => {
  const { look, pods, runtime, sandbox } = await createReadScene();
  const id = runtime.addForeignContainer(sandbox, containerConfig("b"));
  pods.hear({ kind: "container", change: "started", containerId: id, podUid: uid, isSandbox: false });
  expect(await look()).toEqual(["sandbox ready", "a #0 running", "b #0 running"]);
});

test("an event of nobody's container is taken by nobody", async () => {
  const { hear, woken } = await createReadScene();
  expect(hear("started", "who")).toBe("nobody's");
  expect(woken).toEqual([]);
});

test("a container that is gone without a word is forgotten when its status is asked for", async () => {
  const { look, hear, runtime, container } = await createReadScene();
  runtime.loseContainer(container);
  hear("deleted", container);
  expect(await look()).toEqual(["sandbox ready"]);
});

test("a look that failed is made again, in full", async () => {
  const { look, hear, runtime, container } = await createReadScene();
  runtime.exit(container, 1);
  hear("stopped", container);
  runtime.failures.containerStatus = [new CriError("DEADLINE_EXCEEDED", "ContainerStatus", "no answer")];
  await expect(look()).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
  expect(await look()).toEqual(["sandbox ready", "a #0 exited"]);
});

test("an audit that finds nothing new wakes nobody; one that finds a change wakes its pod", async () => {
  const { pods, look, runtime, woken, container } = await createReadScene();
  await pods.audit();
  expect(woken).toEqual([]);
  runtime.exit(container, 1);
  await pods.audit();
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready", "a #0 exited"]);
});

test("an audit finds what was removed behind our back", async () => {
  const { pods, look, runtime, woken, container } = await createReadScene();
  runtime.loseContainer(container);
  await pods.audit();
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready"]);
});

/*
 * 1. the audit asks for all containers        3. our call creates a container, and its turn reads it
 * 2. the runtime takes its list               4. the list arrives, without it
 */
test("a list that crosses our own call does not make what we created disappear", async () => {
  const { pods, look, runtime, woken, sandbox, create } = await createReadScene();
  const answer = Promise.withResolvers<void>();
  runtime.after.listContainers = () => answer.promise;
  const audit = pods.audit();
  await rest();
  delete runtime.after.listContainers;
  pods.mutating(uid);
  const id = await create("b");
  pods.mutated(uid, { kind: "made", container: made("b", id, sandbox) });
  const all = ["sandbox ready", "a #0 running", "b #0 created"];
  expect(await look()).toEqual(all);
  answer.resolve();
  await audit;
  expect(await look()).toEqual(all);
  expect(woken).toContain(uid);
});

test("a list that was begun while our call was under way says nothing of its pod either", async () => {
  const { pods, look, runtime, sandbox, create } = await createReadScene();
  const letGo = runtime.hang("createContainer");
  pods.mutating(uid);
  const created = create("b");
  const answer = Promise.withResolvers<void>();
  runtime.after.listContainers = () => answer.promise;
  const audit = pods.audit();
  await rest();
  delete runtime.after.listContainers;
  letGo();
  pods.mutated(uid, { kind: "made", container: made("b", await created, sandbox) });
  await look();
  answer.resolve();
  await audit;
  expect(await look()).toEqual(["sandbox ready", "a #0 running", "b #0 created"]);
});

/*
 * 1. a look asks for a status                   3. the audit's list shows the end, and the pod is woken
 * 2. the runtime takes it; then the container   4. the status arrives, from before that
 *    ends, and its event is lost
 */
test("what an audit found while an older status was under way is read in the next look", async () => {
  const { pods, look, runtime, woken, container } = await createReadScene();
  const answer = Promise.withResolvers<void>();
  runtime.after.containerStatus = () => answer.promise;
  pods.mutated(uid, { kind: "container", id: container });
  const looking = look();
  await rest();
  delete runtime.after.containerStatus;
  runtime.exit(container, 1);
  await pods.audit();
  answer.resolve();
  expect(await looking).toEqual(["sandbox ready", "a #0 running"]);
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready", "a #0 exited"]);
});

test("after the connection was lost nothing is known until the next audit, which wakes every pod", async () => {
  const { pods, look, woken } = await createReadScene();
  pods.lose();
  await expect(look()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await pods.audit();
  expect(woken).toEqual([uid]);
  expect(await look()).toEqual(["sandbox ready", "a #0 running"]);
});

test("as long as nothing is known, whoever looks is told why, the socket, and that it is waited for", async () => {
  const { pods, runtime } = await createScene();
  const why = () =>
    pods.observe(uid, desired).then(
      () => "it was seen",
      (error: Error) => error.message,
    );
  expect(await why()).toBe("the container runtime has not been read yet");
  const error = new CriError("UNAVAILABLE", "Version", "connect ENOENT");
  pods.lose({ error, socket: "/run/x.sock" });
  const away = "the container runtime is away, and waited for at /run/x.sock: Version: connect ENOENT";
  expect(await why()).toBe(away);
  pods.lose();
  expect(await why()).toBe(away);
  runtime.failures.listContainers = [new CriError("UNKNOWN", "ListContainers", "no such table")];
  await pods.audit().catch(() => "said below");
  expect(await why()).toBe("the container runtime could not be read: ListContainers: no such table");
  await pods.audit();
  expect(await why()).toBe("it was seen");
});

test("a pod that is gone is forgotten with its containers", async () => {
  const { pods, hear, container } = await createReadScene();
  pods.forget(uid);
  expect(hear("stopped", container)).toBe("nobody's");
});

/** Looks whenever the pod is woken, and says after how many milliseconds each look came. */
async function lookWhenWoken({ clock, woken, look }: Awaited<ReturnType<typeof createReadScene>>, ms: number) {
  const looks: string[] = [];
  const start = clock.elapsedMs;
  for (let passed = 0; passed <= ms; passed++) {
    if (woken.splice(0).length > 0) looks.push(`${clock.elapsedMs - start} ms: ${(await look()).at(-1)}`);
    await clock.advance(1);
  }
  return looks;
}

test("a stop that the runtime does not show yet is looked for after 5, 10, 20 ms … and each second for 41 s, and then not believed", async () => {
  const scene = await createReadScene();
  scene.hear("stopped", scene.container);
  const looks = await lookWhenWoken(scene, 60_000);
  const seconds = Array.from({ length: 40 }, (_, at) => 2275 + at * 1000);
  const times = [0, 5, 15, 35, 75, 155, 315, 635, 1275, ...seconds];
  expect(looks).toEqual(times.map((ms) => `${ms} ms: a #0 running`));
  scene.hear("stopped", scene.container);
  expect(await lookWhenWoken(scene, 20)).toEqual(["0 ms", "5 ms", "15 ms"].map((at) => `${at}: a #0 running`));
});

test("a stop that the runtime shows a moment later is seen then, and looked for no more", async () => {
  const scene = await createReadScene();
  scene.hear("stopped", scene.container);
  scene.clock.wakeAt(scene.clock.now() + 12, () => scene.runtime.exit(scene.container, 0));
  expect(await lookWhenWoken(scene, 1000)).toEqual(["0 ms: a #0 running", "5 ms: a #0 running", "15 ms: a #0 exited"]);
});

/** A pod whose container the event of an end was heard of, and what each look shows: the state, and whether it is only told. */
async function createToldScene(exitCode: number) {
  const scene = await createReadScene();
  const finishedAt = BigInt(scene.clock.now()) * 1_000_000n;
  const stop = { kind: "container", change: "stopped", containerId: scene.container, isSandbox: undefined } as const;
  scene.pods.hear({ ...stop, exit: { exitCode, finishedAt } });
  const look = async () => {
    const { isAhead = false, containers } = await scene.pods.observe(uid, desired);
    const [container] = containers;
    const end = container?.state === "exited" ? `${container.reason} ${container.exitCode}` : container?.state;
    return [`${end}${isAhead ? ", not shown yet" : ""}`];
  };
  return { ...scene, look, finishedAt };
}

test("how a container has ended is believed from the event, until the runtime shows it too", async () => {
  const scene = await createToldScene(3);
  scene.clock.wakeAt(scene.clock.now() + 12, () => scene.runtime.exit(scene.container, 3));
  expect(await lookWhenWoken(scene, 1000)).toEqual([
    "0 ms: Error 3, not shown yet",
    "5 ms: Error 3, not shown yet",
    "15 ms: Error 3",
  ]);
});

test("an end that was only told reads as it is going to be shown", async () => {
  const { pods, finishedAt } = await createToldScene(0);
  const { containers, isAhead } = await pods.observe(uid, desired);
  const end = { state: "exited", exitCode: 0, reason: "Completed", finishedAt: Number(finishedAt / 1_000_000n) };
  expect({ isAhead, container: containers[0] }).toMatchObject({ isAhead: true, container: end });
});

test("an end by SIGKILL is not believed from the event, since only the runtime tells whether memory was the reason", async () => {
  const scene = await createToldScene(137);
  scene.clock.wakeAt(scene.clock.now() + 2, () => scene.runtime.exit(scene.container, 137, "OOMKilled"));
  expect(await lookWhenWoken(scene, 1000)).toEqual(["0 ms: running", "5 ms: OOMKilled 137"]);
});

test("an end by SIGKILL is read again, since the runtime may hear of the memory after it has shown the end", async () => {
  const scene = await createToldScene(137);
  scene.runtime.exit(scene.container, 137);
  scene.clock.wakeAt(scene.clock.now() + 400, () => scene.runtime.tellReason(scene.container, "OOMKilled"));
  expect(await lookWhenWoken(scene, 10_000)).toEqual([
    "0 ms: Error 137",
    "20 ms: Error 137",
    "100 ms: Error 137",
    "1000 ms: OOMKilled 137",
  ]);
});

test("an end by SIGKILL without a reason is left at that after 5 s, and one that was found later at once", async () => {
  const scene = await createToldScene(137);
  scene.runtime.exit(scene.container, 137);
  const times = [0, 20, 100, 1000, 5000];
  expect(await lookWhenWoken(scene, 60_000)).toEqual(times.map((ms) => `${ms} ms: Error 137`));
  scene.pods.forget(uid);
  await scene.pods.audit();
  expect(await lookWhenWoken(scene, 60_000)).toEqual(["0 ms: Error 137"]);
});

test("an end that the runtime never shows is believed no more after 41 s", async () => {
  const scene = await createToldScene(0);
  const looks = await lookWhenWoken(scene, 60_000);
  expect(looks.slice(-2)).toEqual(["40275 ms: Completed 0, not shown yet", "41275 ms: running"]);
  expect(looks).toHaveLength(49);
});

test("an end that a busy runtime shows after seconds is not taken back", async () => {
  const scene = await createToldScene(3);
  scene.clock.wakeAt(scene.clock.now() + 3000, () => scene.runtime.exit(scene.container, 3));
  const looks = await lookWhenWoken(scene, 10_000);
  expect(looks.filter((look) => look.endsWith("running"))).toEqual([]);
  expect(looks.at(-1)).toBe("3275 ms: Error 3");
});

test("an end that was told stands where the runtime has forgotten it, killed before it had written it down", async () => {
  const scene = await createToldScene(3);
  scene.clock.wakeAt(scene.clock.now() + 12, () => scene.runtime.exit(scene.container, 255, "Unknown"));
  expect((await lookWhenWoken(scene, 1000)).at(-1)).toBe("15 ms: Error 3");
});

test("an end that was told is not forgotten when the runtime could not be asked", async () => {
  const scene = await createToldScene(3);
  scene.runtime.failures.containerStatus = [new CriError("UNAVAILABLE", "ContainerStatus", "gone")];
  await expect(scene.pods.observe(uid, desired)).rejects.toMatchObject({ code: "UNAVAILABLE" });
  scene.clock.wakeAt(scene.clock.now() + 3, () => scene.runtime.exit(scene.container, 3));
  expect(await lookWhenWoken(scene, 1000)).toEqual(["0 ms: Error 3, not shown yet", "5 ms: Error 3"]);
});

for (const isRead of [true, false])
  test(`a stop right after our own start is looked for again${isRead ? "" : ", even where the container was never read before"}`, async () => {
    const scene = await createReadScene();
    const { pods, sandbox, runtime } = scene;
    pods.mutating(uid);
    const id = await scene.create("b");
    pods.mutated(uid, { kind: "made", container: made("b", id, sandbox) });
    if (isRead) await scene.look();
    pods.mutating(uid);
    await runtime.startContainer(id);
    pods.mutated(uid, { kind: "container", id });
    scene.hear("started", id);
    scene.hear("stopped", id);
    scene.clock.wakeAt(scene.clock.now() + 3, () => runtime.exit(id, 0));
    expect(await lookWhenWoken(scene, 1000)).toEqual(["0 ms: b #0 running", "5 ms: b #0 exited"]);
  });

test("what belongs to no pod is told once, and its events concern nobody", async () => {
  const { pods, hear, runtime, log, woken } = await createReadScene();
  const stranger = runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata: { name: "who" } }));
  const container = runtime.addForeignContainer(stranger, ContainerConfig.fromPartial({ metadata: { name: "what" } }));
  await pods.audit();
  await pods.audit();
  const sentence = "info: the runtime shows something that belongs to no pod; it is left alone";
  expect(log.lines.map(({ fields }) => fields["id"])).toEqual([stranger, container]);
  expect(log.told()).toEqual([sentence, sentence]);
  expect(hear("stopped", container)).toBe("known");
  expect(woken).toEqual([]);
});
