import { expect, test } from "bun:test";
import { createFolderSync } from "./fsync-dir.ts";

/** Syncs whose ends the test controls. */
function createFixture() {
  const started: string[] = [];
  const ends: ((error?: Error) => void)[] = [];
  const sync = createFolderSync((folder) => {
    started.push(folder);
    return new Promise((resolve, reject) => ends.push((error) => (error === undefined ? resolve() : reject(error))));
  });
  const done: string[] = [];
  const requestSync = (caller: string, folder: string) =>
    sync(folder).then(
      () => done.push(caller),
      (error: Error) => done.push(`${caller}: ${error.message}`),
    );
  const end = async (error?: Error) => {
    ends.shift()?.(error);
    for (let rest = 0; rest < 10; rest++) await Promise.resolve();
  };
  return { requestSync, end, started, done };
}

test("calls during a running sync share the next one, which starts when that has ended", async () => {
  const { requestSync, end, started, done } = createFixture();
  for (const caller of ["a", "b", "c"]) void requestSync(caller, "/f");
  expect(started).toEqual(["/f"]);
  await end();
  expect(done).toEqual(["a"]);
  expect(started).toEqual(["/f", "/f"]);
  await end();
  expect(done).toEqual(["a", "b", "c"]);
  expect(started).toHaveLength(2);
});

test("a call during the second sync waits for a third", async () => {
  const { requestSync, end, started, done } = createFixture();
  void requestSync("a", "/f");
  void requestSync("b", "/f");
  await end();
  void requestSync("c", "/f");
  await end();
  expect(done).toEqual(["a", "b"]);
  await end();
  expect(done).toEqual(["a", "b", "c"]);
  expect(started).toHaveLength(3);
});

test("syncs of different folders do not wait for each other", () => {
  const { requestSync, started } = createFixture();
  void requestSync("a", "/f");
  void requestSync("b", "/g");
  expect(started).toEqual(["/f", "/g"]);
});

test("an error is reported to the callers of that sync only, and the next sync runs anyway", async () => {
  const { requestSync, end, done } = createFixture();
  void requestSync("a", "/f");
  void requestSync("b", "/f");
  await end(new Error("disk full"));
  expect(done).toEqual(["a: disk full"]);
  await end();
  expect(done).toEqual(["a: disk full", "b"]);
});

test("a call after the last sync starts a new one", async () => {
  const { requestSync, end, started, done } = createFixture();
  void requestSync("a", "/f");
  await end();
  void requestSync("b", "/f");
  expect(started).toHaveLength(2);
  await end();
  expect(done).toEqual(["a", "b"]);
});
