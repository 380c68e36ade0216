import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findDelegateDirs } from "./delegate-dirs.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-dirs-"));
});
afterEach(() => rm(folder, { recursive: true }));

const usual = "/etc/berth/cni/net.d";

test.each<[string, readonly string[], readonly string[]]>([
  ["without the flag", [], [usual]],
  ["with another folder", ["--network-delegate-dir=/first", "--network-delegate-dir", "/last"], [usual, "/last"]],
  ["with a folder below its working directory", ["--network-delegate-dir=own.d"], [usual, "/work/own.d"]],
  ["with the usual folder", [`--network-delegate-dir=${usual}`], [usual]],
])("the folders of an agent that was started %s", async (_, argv, expected) => {
  const commandLine = { pid: 7, startedAt: new Date(0).toISOString(), argv, workingDirectory: "/work" };
  const agent = Bun.serve({
    unix: join(folder, "berth.sock"),
    routes: { "/command-line": Response.json(commandLine) },
  });
  const dirs = await findDelegateDirs(folder);
  await agent.stop();
  expect(dirs).toEqual([...expected]);
});

test("without an agent only the usual folder is known", async () => {
  expect(await findDelegateDirs(folder)).toEqual([usual]);
});
