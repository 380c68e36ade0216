import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { nothingObserved, type ObservedContainer, type ObservedPod } from "../../decide/pod/observed.ts";
import { createLogLinks } from "./log-symlinks.ts";

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

/** Newest first, as they are observed. */
function podOf(name: string, ...containers: readonly ObservedContainer[]): ObservedPod {
  return { ...nothingObserved(`uid-${name}` as PodUid, "shop", name), containers };
}

async function createScene() {
  const disk = new FakeDisk(() => 0);
  const machine = disk.at("/");
  await machine.makeFolder(logs, 0o755);
  const changes: string[] = [];
  disk.before = (verb, path) => {
    if (!["stat", "list", "readLink"].includes(verb)) changes.push(`${verb} ${path}`);
  };
  const log = new FakeLog();
  const begin = () => createLogLinks({ machine, logs: disk.at(logs) }, log);
  /** Each link with its target. */
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

test("each container that has run has a link to its log, under the name that collectors read", async () => {
  const { begin, shown } = await createScene();
  const neverRan = { ...containerOf("d", 0, "exited"), startedAt: 0 };
  const kept = begin();
  await kept.keep(
    podOf("web", containerOf("a", 1), containerOf("a", 0, "exited"), containerOf("b", 0, "unknown"), neverRan),
  );
  await kept.keep(podOf("api", containerOf("c", 0, "created")));
  expect(await shown()).toEqual([
    `web_shop_a-a0.log → ${logs}/shop_web_uid-web/a/0.log`,
    `web_shop_a-a1.log → ${logs}/shop_web_uid-web/a/1.log`,
    `web_shop_b-b0.log → ${logs}/shop_web_uid-web/b/0.log`,
  ]);
});

test("where nothing has changed, the disk is not asked", async () => {
  const { begin, disk } = await createScene();
  const kept = begin();
  await kept.keep(podOf("web", containerOf("a", 0)));
  disk.before = (verb, path) => {
    throw new Error(`${verb} ${path}`);
  };
  await kept.keep(podOf("web", containerOf("a", 0)));
  await kept.keep(podOf("web", containerOf("a", 0, "exited")));
  await kept.keep(podOf("never-seen"));
  await kept.keep(podOf(""));
});

test("a link goes with its container", async () => {
  const { begin, shown } = await createScene();
  const kept = begin();
  await kept.keep(podOf("web", containerOf("a", 1), containerOf("a", 0, "exited")));
  await kept.keep(podOf("web", containerOf("a", 1)));
  expect(await shown()).toEqual([`web_shop_a-a1.log → ${logs}/shop_web_uid-web/a/1.log`]);
  await kept.keep(podOf("web"));
  expect(await shown()).toEqual([]);
});

test("a new agent takes over what the last one has made, makes what it could not, and removes what has gone since", async () => {
  const { begin, shown, write, changes } = await createScene();
  for (const n of [0, 1]) await write(`${logs}/shop_web_uid-web/a/${n}.log`);
  await begin().keep(podOf("web", containerOf("a", 1), containerOf("a", 0, "exited")));
  changes.length = 0;
  await begin().keep(podOf("web", containerOf("b", 0), containerOf("a", 1)));
  expect(changes).toEqual([
    `makeFolder ${links}`,
    `remove ${links}/web_shop_a-a0.log`,
    `link ${links}/web_shop_b-b0.log`,
  ]);
  expect(await shown()).toHaveLength(2);
});

test("an audit removes what leads nowhere, if it led to a pod's log, and makes again what somebody has removed", async () => {
  const { begin, shown, machine, write } = await createScene();
  await write(`${logs}/shop_old_uid-old/a/0.log`);
  await begin().keep(podOf("old", containerOf("a", 0)));
  await begin().keep(podOf("older", containerOf("a", 0)));
  await machine.link(`${links}/other`, "/somewhere/else.log");
  await machine.write(`${links}/file`, "", 0o600);
  const kept = begin();
  await kept.keep(podOf("web", containerOf("a", 0)));
  await machine.remove(`${links}/web_shop_a-a0.log`);
  await kept.audit();
  expect(await shown()).toEqual([
    "file → undefined",
    `old_shop_a-a0.log → ${logs}/shop_old_uid-old/a/0.log`,
    "other → /somewhere/else.log",
    `web_shop_a-a0.log → ${logs}/shop_web_uid-web/a/0.log`,
  ]);
  await kept.keep(podOf("old"));
  expect(await shown()).toHaveLength(3);
});

test("of two instances whose names are cut to the same, the newer has the link", async () => {
  const { begin, machine, shown } = await createScene();
  await begin().keep(podOf("w".repeat(253), containerOf("a", 1), containerOf("a", 0)));
  const [only, ...others] = await shown();
  expect(others).toEqual([]);
  expect(only).toEndWith("/a/1.log");
  expect((await machine.list(links))?.[0]?.name).toHaveLength(255);
});

test("what cannot be linked is told once, fails nothing, and is linked when it can be", async () => {
  const { begin, disk, log, shown } = await createScene();
  const kept = begin();
  const full = () => {
    throw new Error("the disk is full");
  };
  disk.before = (verb) => verb === "link" && full();
  for (const name of ["web", "api", "web"]) await kept.keep(podOf(name, containerOf("a", 0)));
  await kept.audit();
  expect(log.told()).toEqual(["warn: the links by which log collectors find logs cannot be kept"]);
  disk.before = () => {};
  await kept.keep(podOf("web", containerOf("a", 0)));
  expect(await shown()).toHaveLength(1);
});

test("a pod whose labels no file can be called by has no links, and does no harm", async () => {
  const { begin, log, shown } = await createScene();
  const kept = begin();
  await kept.keep(podOf("../web", containerOf("a", 0)));
  await kept.keep(podOf("web", containerOf("a/b", 0)));
  expect(await shown()).toEqual([]);
  expect(log.told()).toHaveLength(1);
});
