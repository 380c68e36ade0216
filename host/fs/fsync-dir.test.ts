import { expect, test } from "bun:test";
import { createFolderSync } from "./fsync-dir.ts";

/** Syncs that end when they are told to. */
function createScene() {
  const begun: string[] = [];
  const ends: ((error?: Error) => void)[] = [];
  const sync = createFolderSync((folder) => {
    begun.push(folder);
    return new Promise((resolve, reject) => ends.push((error) => (error === undefined ? resolve() : reject(error))));
  });
  const done: string[] = [];
  const ask = (who: string, folder: string) =>
    sync(folder).then(
      () => done.push(who),
      (error: Error) => done.push(`${who}: ${error.message}`),
    );
  const end = async (error?: Error) => {
    ends.shift()?.(error);
    for (let turn = 0; turn < 10; turn++) await Promise.resolve();
  };
  return { ask, end, begun, done };
}

test("who asks while a sync is under way shares the next one, which begins when that has ended", async () => {
  const { ask, end, begun, done } = createScene();
  for (const who of ["a", "b", "c"]) void ask(who, "/f");
  expect(begun).toEqual(["/f"]);
  await end();
  expect(done).toEqual(["a"]);
  expect(begun).toEqual(["/f", "/f"]);
  await end();
  expect(done).toEqual(["a", "b", "c"]);
  expect(begun).toHaveLength(2);
});

test("who asks during the second sync waits for a third", async () => {
  const { ask, end, begun, done } = createScene();
  void ask("a", "/f");
  void ask("b", "/f");
  await end();
  void ask("c", "/f");
  await end();
  expect(done).toEqual(["a", "b"]);
  await end();
  expect(done).toEqual(["a", "b", "c"]);
  expect(begun).toHaveLength(3);
});

test("folders do not wait for each other", () => {
  const { ask, begun } = createScene();
  void ask("a", "/f");
  void ask("b", "/g");
  expect(begun).toEqual(["/f", "/g"]);
});

test("a sync that fails fails for those who asked for it, and the next ones try for themselves", async () => {
  const { ask, end, done } = createScene();
  void ask("a", "/f");
  void ask("b", "/f");
  await end(new Error("disk full"));
  expect(done).toEqual(["a: disk full"]);
  await end();
  expect(done).toEqual(["a: disk full", "b"]);
});

test("after the last one nothing is shared with what has ended", async () => {
  const { ask, end, begun, done } = createScene();
  void ask("a", "/f");
  await end();
  void ask("b", "/f");
  expect(begun).toHaveLength(2);
  await end();
  expect(done).toEqual(["a", "b"]);
});
