import { beforeEach, expect, test } from "bun:test";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { createTerminationLog, removeTerminationLog } from "./termination-log.ts";

const pod: Pod = { metadata: { name: "web", uid: "u" }, spec: { containers: [] } };
const path = "/root/pods/u/containers/a/0000000b";

let disk: FakeDisk;
beforeEach(() => {
  disk = new FakeDisk(() => 0);
});
const root = () => disk.at("/root");

test("any user in the container may write its termination log, which other users of the node cannot reach", async () => {
  await createTerminationLog(root(), pod, { name: "a" }, 11);
  expect((await disk.at("/").stat(path))?.mode).toBe(0o666);
  expect((await disk.at("/").stat("/root/pods/u/containers/a"))?.mode).toBe(0o750);
});

test("the content of an earlier attempt is truncated", async () => {
  await createTerminationLog(root(), pod, { name: "a" }, 11);
  await disk.at("/").write(path, "old words", 0o666);
  await createTerminationLog(root(), pod, { name: "a" }, 11);
  expect(await disk.at("/").read(path, 100)).toBe("");
});

test("a container with an empty terminationMessagePath gets no file", async () => {
  await createTerminationLog(root(), pod, { name: "a", terminationMessagePath: "" }, 11);
  expect(disk.paths()).toEqual([]);
});

test("removing one instance's file is idempotent and keeps the others", async () => {
  for (const attempt of [10, 11]) await createTerminationLog(root(), pod, { name: "a" }, attempt);
  for (const attempt of [11, 11]) await removeTerminationLog(root(), { uid: "u", container: "a", attempt });
  expect(disk.paths().filter((each) => each.startsWith("/root/pods/u/containers/a/"))).toEqual([
    "/root/pods/u/containers/a/0000000a",
  ]);
});
