import { afterEach, beforeEach, expect, test } from "bun:test";
import { execFileSync } from "node:child_process";
import {
  appendFile,
  mkdir,
  mkdtemp,
  readdir,
  readlink,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CriError } from "../../../cri/error.ts";
import { type Clock, createClock } from "../../../host/clock.ts";
import { createFiles } from "../../../host/fs/files.ts";
import { ContainerState, ContainerStatus } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../../test/bed/poll-until.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import { createContainerEnds } from "./container-ends.ts";
import { type ContainerLogsDeps, createContainerLogs } from "./container-logs.ts";
import { createLogRoutes } from "./log-routes.ts";

const T = "2026-01-02T03:04:05.123456789Z";
const line = (text: string) => `${T} stdout F ${text}\n`;
const uid = "u-1" as PodUid;
const pod: Pod = { metadata: { name: "web", namespace: "shop", uid }, spec: { containers: [{ name: "c" }] } };
const runningStatus: PodStatus = {
  containerStatuses: [
    {
      ...{ name: "c", image: "i", imageID: "", ready: true, restartCount: 1, containerID: "containerd://id-1" },
      state: { running: { startedAt: "2026-01-01T00:00:00Z" } },
      lastState: { terminated: { exitCode: 1, containerID: "containerd://id-0" } },
    },
  ],
};

let root: string;
let folder: string;
let current: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "berth-logs-"));
  folder = join(root, "shop_web_u-1/c");
  current = join(folder, "1.log");
  await mkdir(folder, { recursive: true });
});
afterEach(() => rm(root, { recursive: true }));

function createFixture(files: ContainerLogsDeps["logs"] = createFiles(root), clock: Clock = createClock()) {
  const ends = createContainerEnds();
  let state: ContainerState = ContainerState.CONTAINER_RUNNING;
  const logs = createContainerLogs({
    runtime: {
      async containerStatus(id) {
        if (id === ("gone" as ContainerId)) throw new CriError("NOT_FOUND", "ContainerStatus", "no such container");
        return ContainerStatus.fromPartial({ id, state, logPath: join(folder, id === "id-1" ? "1.log" : "0.log") });
      },
    },
    logs: files,
    clock,
    findPod: (namespace, name) =>
      namespace === "shop" && name === "web" ? { ...pod, status: runningStatus } : undefined,
    ends,
    splitsStreams: false,
  });

  /** A client: what it has received, and what it waits for. */
  function request(query: string, { container = "c", name = "web", takesBytes = Number.POSITIVE_INFINITY } = {}) {
    const leaving = new AbortController();
    let status: number | undefined;
    let text = "";
    let changed = () => {};
    let isSlow = Number.isFinite(takesBytes);
    let resume = () => {};
    const receive = (chunk: Uint8Array | string = "") => {
      text += Buffer.from(chunk as string).toString("latin1");
      changed();
    };
    const [route] = createLogRoutes({ containerLogs: logs, clock: createClock() });
    const done = route!.handle(
      {
        ...{ method: "GET", path: "", headers: {}, user: { username: "root", groups: [] }, signal: leaving.signal },
        ...{ params: { namespace: "shop", pod: name, container }, query: new URLSearchParams(query) },
        body: async () => Buffer.alloc(0),
      },
      {
        start: (code) => {
          status = code;
        },
        async write(chunk) {
          receive(chunk);
          if (isSlow && text.length >= takesBytes) await new Promise<void>((resolve) => (resume = resolve));
        },
        end: receive,
      },
    );
    const until = (isThere: () => boolean) =>
      new Promise<void>((resolve) => {
        changed = () => isThere() && resolve();
        changed();
      });
    return {
      done: done.then(
        () => ({ status, text }),
        (error: unknown) => error,
      ),
      text: () => text,
      received: (part: string) => until(() => text.includes(part)),
      leave: () => leaving.abort(new Error("the client has gone away")),
      readOn() {
        isSlow = false;
        resume();
      },
    };
  }

  return {
    request,
    read: (query: string, options = {}) => request(query, options).done,
    endContainer() {
      state = ContainerState.CONTAINER_EXITED;
      ends.onObserved(emptyObservedPod(uid, "shop", "web"));
    },
  };
}

const openFiles = async () => (await readdir("/proc/self/fd")).length;

/** As the agent does it: the runtime creates the new file when it is asked to reopen the log. */
async function rotate(suffix = "20260102-030405"): Promise<void> {
  await rename(current, `${current}.${suffix}`);
  await writeFile(current, "");
}

test("a log with all that a query selects", async () => {
  await writeFile(current, [1, 2, 3].map((n) => line(`line ${n}`)).join(""));
  const { read } = createFixture();
  expect(await read("")).toEqual({ status: 200, text: "line 1\nline 2\nline 3\n" });
  expect(await read("tailLines=2")).toEqual({ status: 200, text: "line 2\nline 3\n" });
  expect(await read("tailLines=0")).toEqual({ status: 200, text: "" });
  expect(await read("tailLines=1&timestamps=true")).toEqual({ status: 200, text: `${T} line 3\n` });
  expect(await read("limitBytes=9")).toEqual({ status: 200, text: "line 1\nli" });
  expect(await read("sinceTime=2026-01-02T03:04:06Z")).toEqual({ status: 200, text: "" });
  await writeFile(join(folder, "0.log"), line("before"));
  expect(await read("previous=true")).toEqual({ status: 200, text: "before\n" });
});

test("the tail of a log of many blocks", async () => {
  const text = Array.from({ length: 40_000 }, (_, n) => line(`line ${n} ${"x".repeat(n % 50)}`)).join("");
  await writeFile(current, text);
  const { read } = createFixture();
  const all = (await read("")) as { text: string };
  for (const lines of [1, 1500, 39_999, 40_000, 50_000]) {
    const { text: tail } = (await read(`tailLines=${lines}`)) as { text: string };
    expect(tail).toBe(
      all.text
        .split("\n")
        .slice(-lines - 1)
        .join("\n"),
    );
  }
});

test("what has no log is refused with the kubelet's texts", async () => {
  const { read } = createFixture();
  const refusal = (status: number, message: string) => expect.objectContaining({ name: "ApiError", status, message });
  expect(await read("", { name: "other" })).toEqual(refusal(404, 'pod "other" does not exist'));
  expect(await read("", { container: "d" })).toEqual(refusal(404, 'container "d" not found in pod "web"'));
  expect(await read("stream=Stdout")).toEqual(
    refusal(
      400,
      'unable to return the given log stream: "Stdout". Please enable PodLogsQuerySplitStreams feature gate in kubelet',
    ),
  );
});

test("a log that cannot be read is reported in the answer", async () => {
  const { read } = createFixture();
  expect(await read("")).toEqual({
    status: 200,
    text: `failed to try resolving symlinks in path "${current}": lstat ${current}: no such file or directory`,
  });
  await writeFile(join(root, "secret"), line("secret"));
  await symlink(join(root, "secret"), current);
  const refused = (text: string) => ({ status: 200, text: `failed to open log file "${current}": ${current} ${text}` });
  for (const query of ["", "follow=true"])
    expect(await read(query)).toEqual(refused("contains a symlink, which is not followed"));
  await rm(current);
  execFileSync("mkfifo", [current]);
  for (const query of ["", "follow=true", "tailLines=1"])
    expect(await read(query)).toEqual(refused("is not a regular file"));
  await rm(folder, { recursive: true });
  await symlink(root, folder);
  expect(await read("previous=true")).toMatchObject({ text: expect.stringContaining("contains a symlink") });
});

test("a follower gets new lines, and its answer ends with the container", async () => {
  await writeFile(current, line("a"));
  const { request, endContainer } = createFixture();
  const follower = request("follow=true&tailLines=1");
  await follower.received("a\n");
  await appendFile(current, line("b"));
  await follower.received("b\n");
  await appendFile(current, line("c"));
  endContainer();
  expect(await follower.done).toEqual({ status: 200, text: "a\nb\nc\n" });
});

test("a follower gets each of many lines in a row without another one behind it", async () => {
  await writeFile(current, line("a"));
  const { request, endContainer } = createFixture();
  const follower = request("follow=true");
  const lines = Array.from({ length: 100 }, (_, count) => `line ${count}.`);
  for (const text of lines) {
    await appendFile(current, line(text));
    await follower.received(text);
  }
  endContainer();
  expect(await follower.done).toEqual({ status: 200, text: ["a", ...lines, ""].join("\n") });
});

test("a follower of a container that has ended gets its log", async () => {
  await writeFile(current, line("a"));
  const { read, endContainer } = createFixture();
  endContainer();
  expect(await read("follow=true")).toEqual({ status: 200, text: "a\n" });
});

test("a follower gets every line over rotations, also those that come late to the old file", async () => {
  await writeFile(current, "");
  const { request, endContainer } = createFixture();
  const follower = request("follow=true");
  let expected = "";
  for (let rotation = 0; rotation < 5; rotation++) {
    const old = `${current}.20260102-03040${rotation}`;
    await appendFile(current, line(`${rotation} before`));
    await follower.received(`${rotation} before`);
    await rename(current, old);
    await appendFile(old, line(`${rotation} renamed`));
    await follower.received(`${rotation} renamed`);
    await writeFile(current, line(`${rotation} new`));
    await follower.received(`${rotation} new`);
    await appendFile(old, line(`${rotation} late`));
    await follower.received(`${rotation} late`);
    expected += ["before", "renamed", "new", "late"].map((what) => `${rotation} ${what}\n`).join("");
  }
  endContainer();
  expect(await follower.done).toEqual({ status: 200, text: expected });
});

test.each([
  ["", 0],
  [", also if the clock is set back meanwhile", -3_600_000],
])(
  "a follower shows lines that come to the old file within 20 ms after a rotation before those of the new file%s",
  async (_, stepMs) => {
    const clock = new FakeClock();
    const files = createFiles(root);
    let opens = 0;
    const { request, endContainer } = createFixture(
      {
        ...files,
        async open(path) {
          const file = await files.open(path);
          opens++;
          return file;
        },
      },
      clock,
    );
    await writeFile(current, line("before"));
    const follower = request("follow=true");
    await follower.received("before");
    const old = `${current}.20260102-030400`;
    await rename(current, old);
    const opensBefore = opens;
    await writeFile(current, line("new"));
    await pollUntil("the new file to be opened", 4_000, () => opens > opensBefore);
    // An event may be lost, and the clock by which the log is read once more stands still.
    await pollUntil("the late line", 4_000, async () => {
      await appendFile(old, line("late"));
      return follower.text().includes("late");
    });
    clock.stepWallClock(stepMs);
    await pollUntil("the new line", 4_000, async () => {
      await clock.advance(20);
      return follower.text().includes("new");
    });
    endContainer();
    expect(await follower.done).toEqual({ status: 200, text: expect.stringMatching(/^before\n(late\n)+new\n$/) });
  },
);

test("a follower of a log in Docker's format gets parts of lines as they come, over a rotation, too", async () => {
  const entry = (log: string, stream = "stdout") => `${JSON.stringify({ log, stream, time: T })}\n`;
  await writeFile(current, entry("old\n") + entry("a\n"));
  const { request, endContainer } = createFixture();
  const follower = request("follow=true&tailLines=1&timestamps=true");
  await follower.received("a\n");
  await appendFile(current, entry("part "));
  await follower.received("part ");
  await appendFile(current, entry("end\n"));
  await follower.received("end\n");
  await rotate();
  await appendFile(current, entry("new\n", "stderr"));
  await follower.received("new\n");
  endContainer();
  expect(await follower.done).toEqual({ status: 200, text: `${T} a\n${T} part end\n${T} new\n` });
});

test("a follower finds the new file although the event of its creation is lost", async () => {
  const files = createFiles(root);
  const { request, endContainer } = createFixture({
    ...files,
    watch: (path, onChange, ...rest) =>
      files.watch(path, (file, isInPlace) => isInPlace && onChange(file, isInPlace), ...rest),
  });
  await writeFile(current, line("a"));
  const follower = request("follow=true");
  await follower.received("a");
  for (let more = 0; more < 5; more++) {
    await appendFile(current, line(`more ${more}`));
    await follower.received(`more ${more}`);
  }
  await rename(current, `${current}.20260102-030400`);
  await writeFile(current, line("b"));
  // The first lines may be part of the same event.
  await pollUntil("the new file", 4_000, async () => {
    await appendFile(current, line("c"));
    return follower.text().includes("c");
  });
  endContainer();
  expect(await follower.done).toMatchObject({ text: expect.stringMatching(/^a\n(more \d\n){5}b\n(c\n)+$/) });
});

test("a slow follower gets the files that were rotated and removed meanwhile", async () => {
  await writeFile(current, line("a"));
  const { request, endContainer } = createFixture();
  const follower = request("follow=true", { takesBytes: 1 });
  await follower.received("a\n");
  await appendFile(current, line("b"));
  for (const name of ["c", "d"]) {
    await rotate(name);
    await appendFile(current, line(name));
    // The watch opens it.
    expect(await hasOpenFile(current)).toBe(true);
    await rm(`${current}.${name}`);
  }
  endContainer();
  follower.readOn();
  expect(await follower.done).toEqual({ status: 200, text: "a\nb\nc\nd\n" });
});

/** Waits until this process has a file open. */
async function hasOpenFile(path: string): Promise<boolean> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const targets = (await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "closed"));
    if ((await Promise.all(targets)).includes(path)) return true;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return false;
}

test("a log that is just being rotated is read when it is there again", async () => {
  for (const query of ["", "follow=true"]) {
    const { request, endContainer } = createFixture();
    const client = request(query);
    // The runtime opens the new file some milliseconds after the rename.
    await new Promise((resolve) => setTimeout(resolve, 20));
    await writeFile(join(root, "new"), line("new"));
    await rename(join(root, "new"), current);
    await client.received("new\n");
    endContainer();
    expect(await client.done).toEqual({ status: 200, text: "new\n" });
    await rm(current);
  }
});

test("a follower of a truncated log gets what is written from then on", async () => {
  await writeFile(current, line("a long first line"));
  const { request, endContainer } = createFixture();
  const follower = request("follow=true");
  await follower.received("line\n");
  await truncate(current);
  await appendFile(current, line("b"));
  await follower.received("b\n");
  endContainer();
  expect(await follower.done).toEqual({ status: 200, text: "a long first line\nb\n" });
});

test("a thousand followers leave no descriptor, whether they go away or their container ends", async () => {
  await writeFile(current, line("a"));
  const { request, endContainer } = createFixture();
  const warm = request("follow=true");
  await warm.received("a\n");
  warm.leave();
  await warm.done;
  const before = await openFiles();
  const followers = Array.from({ length: 1000 }, () => request("follow=true"));
  await Promise.all(followers.map((each) => each.received("a\n")));
  await appendFile(current, line("b"));
  await Promise.all(followers.map((each) => each.received("b\n")));
  for (const each of followers.slice(0, 500)) each.leave();
  endContainer();
  const results = await Promise.all(followers.map((each) => each.done));
  expect(
    results.slice(0, 500).every((each) => each instanceof Error && each.message === "the client has gone away"),
  ).toBe(true);
  expect(results.slice(500)).toEqual(Array.from({ length: 500 }, () => ({ status: 200, text: "a\nb\n" })));
  expect(await openFiles()).toBe(before);
}, 30_000);
