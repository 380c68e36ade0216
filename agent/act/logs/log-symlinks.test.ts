import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { ObservedContainer, ObservedPod } from "../../decide/pod/observed.ts";
import { createLogSymlinks } from "./log-symlinks.ts";

const links = "/var/log/containers";
const logs = "/var/log/pods";

function containerOf(name: string, attempt: number, state: ObservedContainer["state"] = "running"): ObservedContainer {
  const identity = {
    ...{ id: `${name}${attempt}` as ContainerId, name, sandboxId: "s" as SandboxId, attempt, createdAt: attempt },
    ...{ image: "busybox:1", imageRef: "", hash: undefined, crashes: 0 },
  };
  if (state === "running") return { ...identity, state, startedAt: 1 };
  if (state === "exited")
    return { ...identity, state, startedAt: 1, finishedAt: 2, exitCode: 1, reason: "Error", message: "" };
  return { ...identity, state };
}

/** Newest first, the order of an observation. */
function podOf(name: string, ...containers: readonly ObservedContainer[]): ObservedPod {
  return { ...emptyObservedPod(`uid-${name}` as PodUid, "shop", name), containers };
}

async function createFixture() {
  const disk = new FakeDisk(() => 0);
  const machine = disk.at("/");
  await machine.makeFolder(logs, 0o755);
  const changes: string[] = [];
  disk.before = (verb, path) => {
    if (!["stat", "list", "readLink"].includes(verb)) changes.push(`${verb} ${path}`);
  };
  const log = new FakeLog();
  const begin = () => {
    const links = createLogSymlinks({ machine, logs: disk.at(logs) }, log);
    const sync = async (pod: ObservedPod) => {
      links.sync(pod);
      await links.settled();
    };
    return { ...links, sync };
  };
  /** Each symlink with its target. */
  const shown = async () =>
    await Promise.all(
      ((await machine.list(links)) ?? []).map(
        async ({ name }) => `${name} → ${await machine.readLink(`${links}/${name}`)}`,
      ),
    );
  const write = async (path: string) => {
    await machine.makeFolder(path.slice(0, path.lastIndexOf("/")), 0o755);
    await machine.write(path, "", 0o640);
  };
  return { disk, machine, changes, log, begin, shown, write };
}

test("each container that has run gets a symlink to its log, under the name that log collectors parse", async () => {
  const { begin, shown } = await createFixture();
  const neverRan = { ...containerOf("d", 0, "exited"), startedAt: 0 };
  const kept = begin();
  await kept.sync(
    podOf("web", containerOf("a", 1), containerOf("a", 0, "exited"), containerOf("b", 0, "unknown"), neverRan),
  );
  await kept.sync(podOf("api", containerOf("c", 0, "created")));
  expect(await shown()).toEqual([
    `web_shop_a-a0.log → ${logs}/shop_web_uid-web/a/0.log`,
    `web_shop_a-a1.log → ${logs}/shop_web_uid-web/a/1.log`,
    `web_shop_b-b0.log → ${logs}/shop_web_uid-web/b/0.log`,
  ]);
});

test("a sync without changes makes no call to the disk", async () => {
  const { begin, disk } = await createFixture();
  const kept = begin();
  await kept.sync(podOf("web", containerOf("a", 0)));
  disk.before = (verb, path) => {
    throw new Error(`${verb} ${path}`);
  };
  await kept.sync(podOf("web", containerOf("a", 0)));
  await kept.sync(podOf("web", containerOf("a", 0, "exited")));
  await kept.sync(podOf("never-seen"));
  await kept.sync(podOf(""));
});

test("a symlink is removed with its container", async () => {
  const { begin, shown } = await createFixture();
  const kept = begin();
  await kept.sync(podOf("web", containerOf("a", 1), containerOf("a", 0, "exited")));
  await kept.sync(podOf("web", containerOf("a", 1)));
  expect(await shown()).toEqual([`web_shop_a-a1.log → ${logs}/shop_web_uid-web/a/1.log`]);
  await kept.sync(podOf("web"));
  expect(await shown()).toEqual([]);
});

test("a new agent keeps existing symlinks, creates missing ones and removes stale ones", async () => {
  const { begin, shown, write, changes } = await createFixture();
  for (const n of [0, 1]) await write(`${logs}/shop_web_uid-web/a/${n}.log`);
  await begin().sync(podOf("web", containerOf("a", 1), containerOf("a", 0, "exited")));
  changes.length = 0;
  await begin().sync(podOf("web", containerOf("b", 0), containerOf("a", 1)));
  expect(changes).toEqual([
    `makeFolder ${links}`,
    `remove ${links}/web_shop_a-a0.log`,
    `link ${links}/web_shop_b-b0.log`,
  ]);
  expect(await shown()).toHaveLength(2);
});

test("an audit removes dangling symlinks to pod logs and restores removed ones", async () => {
  const { begin, shown, machine, write } = await createFixture();
  await write(`${logs}/shop_old_uid-old/a/0.log`);
  await begin().sync(podOf("old", containerOf("a", 0)));
  await begin().sync(podOf("older", containerOf("a", 0)));
  await machine.link(`${links}/other`, "/somewhere/else.log");
  await machine.write(`${links}/file`, "", 0o600);
  const kept = begin();
  await kept.sync(podOf("web", containerOf("a", 0)));
  await machine.remove(`${links}/web_shop_a-a0.log`);
  await kept.audit();
  expect(await shown()).toEqual([
    "file → undefined",
    `old_shop_a-a0.log → ${logs}/shop_old_uid-old/a/0.log`,
    "other → /somewhere/else.log",
    `web_shop_a-a0.log → ${logs}/shop_web_uid-web/a/0.log`,
  ]);
  await kept.sync(podOf("old"));
  expect(await shown()).toHaveLength(3);
});

test("the newer of two containers with equal truncated names gets the symlink", async () => {
  const { begin, machine, shown } = await createFixture();
  await begin().sync(podOf("w".repeat(253), containerOf("a", 1), containerOf("a", 0)));
  const [only, ...others] = await shown();
  expect(others).toEqual([]);
  expect(only).toEndWith("/a/1.log");
  expect((await machine.list(links))?.[0]?.name).toHaveLength(255);
});

test("a failure to create symlinks is logged once, fails no sync, and is retried", async () => {
  const { begin, disk, log, shown } = await createFixture();
  const kept = begin();
  const full = () => {
    throw new Error("the disk is full");
  };
  disk.before = (verb) => verb === "link" && full();
  for (const name of ["web", "api", "web"]) await kept.sync(podOf(name, containerOf("a", 0)));
  await kept.audit();
  expect(log.takeLines()).toEqual(["warn: cannot update the symlinks for log collectors"]);
  disk.before = () => {};
  await kept.sync(podOf("web", containerOf("a", 0)));
  expect(await shown()).toHaveLength(1);
});

test("a pod whose labels cannot be file names gets no symlinks and does no harm", async () => {
  const { begin, log, shown } = await createFixture();
  const kept = begin();
  await kept.sync(podOf("../web", containerOf("a", 0)));
  await kept.sync(podOf("web", containerOf("a/b", 0)));
  expect(await shown()).toEqual([]);
  expect(log.takeLines()).toHaveLength(1);
});
