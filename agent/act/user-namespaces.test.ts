import { expect, test } from "bun:test";
import { FakeDisk } from "../../test/fakes/files.ts";
import { createUserNamespaces } from "./user-namespaces.ts";

const space = { first: 65_536, length: 3 * 65_536, idsPerPod: 65_536 };

async function start(...uids: readonly string[]) {
  const disk = new FakeDisk(() => 0);
  const root = disk.at("/root");
  for (const uid of uids) await root.makeFolder(`pods/${uid}`, 0o750);
  const agent = () => createUserNamespaces(disk.at("/root"), space);
  const place = async (taken: Promise<{ readonly first: number }>) => (await taken).first / 65_536;
  return { disk, root, agent, place };
}

test("pods that ask at the same moment get different ids, and each keeps its own", async () => {
  const { agent, place } = await start("a", "b");
  const ids = agent();
  expect(await Promise.all([place(ids.take("a")), place(ids.take("b"))])).toEqual([1, 2]);
  expect([await place(ids.take("a")), await place(ids.take("b"))]).toEqual([1, 2]);
});

test("the next agent knows them, and gives them to nobody else", async () => {
  const { agent, place } = await start("a", "b", "c");
  await agent().take("a");
  const next = agent();
  expect(await place(next.take("b"))).toBe(2);
  expect(await place(next.take("a"))).toBe(1);
  expect(await place(next.take("c"))).toBe(3);
});

test("when all are taken the next pod has to wait, until one gives its ids back", async () => {
  const { agent, root, place } = await start("a", "b", "c", "d");
  const ids = agent();
  for (const uid of ["a", "b", "c"]) await ids.take(uid);
  const why = await ids.take("d").catch((error: Error) => error.message);
  expect(why).toBe("create user namespace: could not find an empty slot to allocate a user namespace");
  await ids.release("b");
  expect(await root.stat("pods/b/userns")).toBeUndefined();
  expect(await place(ids.take("d"))).toBe(2);
  await root.remove("pods/a");
  await ids.forget("a");
  expect(await place(ids.take("b"))).toBe(1);
});

test("giving back what nobody has is nothing", async () => {
  const { agent } = await start("a");
  await agent().release("a");
});

test("while a record cannot be read no pod gets ids that may be that pod's; its own ones go on, and it is read again", async () => {
  const { agent, root, place } = await start("a", "b", "c");
  await agent().take("a");
  await root.write("pods/b/userns", "{", 0o600);
  const next = agent();
  const why = async (uid: string) => await next.take(uid).catch((error: Error) => error.message);
  const says =
    "user namespace: /root/pods/b/userns does not say which ids the pod has, so that others could be given the same: remove that file when none of the pod's processes runs";
  expect([await why("b"), await why("c")]).toEqual([says, says]);
  expect(await place(next.take("a"))).toBe(1);
  await root.remove("pods/b/userns");
  expect(await place(next.take("c"))).toBe(2);
});

test("ids whose record may have been written half stay that pod's", async () => {
  const { agent, disk, place } = await start("a", "b");
  const ids = agent();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("no space left");
  };
  expect(await ids.take("a").catch((error: Error) => error.message)).toBe("no space left");
  disk.before = () => {};
  expect(await place(ids.take("b"))).toBe(2);
});
