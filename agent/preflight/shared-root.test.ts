import { expect, test } from "bun:test";
import { FilesError } from "../../host/fs/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { shareRootDir } from "./shared-root.ts";

async function shareWith(error?: Error): Promise<readonly string[]> {
  const log = new FakeLog();
  const made: string[] = [];
  const makeShared = async (path: string) => {
    made.push(path);
    if (error !== undefined) throw error;
  };
  await shareRootDir({ makeShared }, "/root", log);
  return [...made, ...log.takeLines()];
}

test("the root directory is made shared", async () => {
  expect(await shareWith()).toEqual(["/root"]);
});

test("where that is forbidden the agent starts, and says what fails", async () => {
  expect(await shareWith(new FilesError("EPERM", "/root", "/root cannot be mounted: not permitted"))).toEqual([
    "/root",
    "warn: cannot share the root directory; volumes with mountPropagation fail",
  ]);
});

test("any other error is a fault of the agent", async () => {
  await expect(shareWith(new TypeError("no such call"))).rejects.toThrow("no such call");
});
