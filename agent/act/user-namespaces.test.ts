import { expect, test } from "bun:test";
import { FakeDisk } from "../../test/fakes/files.ts";
import { createUserNamespaces } from "./user-namespaces.ts";

const space = { first: 65_536, length: 3 * 65_536, idsPerPod: 65_536 };

async function start(...uids: readonly string[]) {
  const disk = new FakeDisk(() => 0);
  const root = disk.at("/root");
  for (const uid of uids) await root.makeFolder(`pods/${uid}`, 0o750);
  const agent = () => createUserNamespaces(disk.at("/root"), space);
  const place = async (used: Promise<{ readonly first: number }>) => (await used).first / 65_536;
  return { disk, root, agent, place };
}

test("concurrent pods get different ranges, and each keeps its own", async () => {
  const { agent, place } = await start("a", "b");
  const ids = agent();
  expect(await Promise.all([place(ids.allocate("a")), place(ids.allocate("b"))])).toEqual([1, 2]);
  expect([await place(ids.allocate("a")), await place(ids.allocate("b"))]).toEqual([1, 2]);
});

test("the next agent reads the recorded ranges and gives them to no other pod", async () => {
  const { agent, place } = await start("a", "b", "c");
  await agent().allocate("a");
  const next = agent();
  expect(await place(next.allocate("b"))).toBe(2);
  expect(await place(next.allocate("a"))).toBe(1);
  expect(await place(next.allocate("c"))).toBe(3);
});

test("a pod fails while all ranges are in use, and gets one after a release", async () => {
  const { agent, root, place } = await start("a", "b", "c", "d");
  const ids = agent();
  for (const uid of ["a", "b", "c"]) await ids.allocate(uid);
  const why = await ids.allocate("d").catch((error: Error) => error.message);
  expect(why).toBe("create user namespace: could not find an empty slot to allocate a user namespace");
  await ids.release("b");
  expect(await root.stat("pods/b/userns")).toBeUndefined();
  expect(await place(ids.allocate("d"))).toBe(2);
  await root.remove("pods/a");
  await ids.forget("a");
  expect(await place(ids.allocate("b"))).toBe(1);
});

test("releasing an absent range succeeds", async () => {
  const { agent } = await start("a");
  await agent().release("a");
});

test("an unreadable record blocks new ranges, not recorded ones, and is read again later", async () => {
  const { agent, root, place } = await start("a", "b", "c");
  await agent().allocate("a");
  await root.write("pods/b/userns", "{", 0o600);
  const next = agent();
  const why = async (uid: string) => await next.allocate(uid).catch((error: Error) => error.message);
  const says =
    "user namespace: /root/pods/b/userns does not contain the pod's id range, so another pod could get the same ids: remove the file when none of the pod's processes runs";
  expect([await why("b"), await why("c")]).toEqual([says, says]);
  expect(await place(next.allocate("a"))).toBe(1);
  await root.remove("pods/b/userns");
  expect(await place(next.allocate("c"))).toBe(2);
});

test("a range whose record failed to be written stays with its pod", async () => {
  const { agent, disk, place } = await start("a", "b");
  const ids = agent();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("no space left");
  };
  expect(await ids.allocate("a").catch((error: Error) => error.message)).toBe("no space left");
  disk.before = () => {};
  expect(await place(ids.allocate("b"))).toBe(2);
});
