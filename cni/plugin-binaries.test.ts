import { afterEach, beforeEach, expect, test } from "bun:test";
import { chmod, copyFile, mkdir, mkdtemp, open, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createExec } from "../host/exec.ts";
import { createFiles } from "../host/fs/files.ts";
import { scriptedCalls, writePlugin } from "../test/fakes/scripted-plugin.ts";
import { shareNoLocks } from "./attachment-locks.ts";
import { CniError, describeCniError } from "./error.ts";
import { createPluginBinaries } from "./plugin-binaries.ts";
import type { PluginCall } from "./plugin-call.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-plugins-"));
});
afterEach(() => rm(folder, { recursive: true }));

const { signal } = new AbortController();
const call: PluginCall = {
  verb: "ADD",
  containerId: "3f2a",
  netns: "/run/netns/blue",
  ifName: "eth0",
  args: new Map([
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAME", "web"],
  ]),
  conf: { type: "bridge", name: "pods", cniVersion: "1.0.0", text: 'quotes "\\ and ümlauts' },
};

const createBinaries = (timeoutMs = 10_000, binDirs = [join(folder, "none"), folder]) =>
  createPluginBinaries({
    exec: createExec(),
    files: createFiles("/"),
    binDirs,
    env: { PATH: process.env["PATH"] ?? "", MARK: "of the agent" },
    timeoutMs,
  });

async function failureOf(promise: Promise<unknown>): Promise<CniError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (error instanceof CniError) return error;
  throw new Error(`no CniError: ${error}`);
}

test("a plugin gets its parameters by the environment, and its configuration on stdin", async () => {
  const result = { cniVersion: "1.0.0", ips: [{ address: "10.1.0.5/16" }] };
  const answer = { before: `printf %s "$MARK" > ${folder}/mark; env | grep -c HOME > ${folder}/home`, stderr: "a log" };
  await writePlugin(folder, "bridge", { ADD: { ...answer, stdout: JSON.stringify(result) } });
  expect(await createBinaries().call(call, signal)).toEqual(result);
  expect(await scriptedCalls(folder)).toEqual([
    {
      verb: "ADD",
      plugin: "bridge",
      containerId: "3f2a",
      netns: "/run/netns/blue",
      ifName: "eth0",
      args: "IgnoreUnknown=1;K8S_POD_NAME=web",
      path: `${folder}/none:${folder}`,
      conf: call.conf,
    },
  ]);
  expect(await readFile(join(folder, "mark"), "utf8")).toBe("of the agent");
  expect((await readFile(join(folder, "home"), "utf8")).trim()).toBe("0");
});

test("a plugin that prints nothing answers nothing", async () => {
  await writePlugin(folder, "bridge", { DEL: {} });
  expect(await createBinaries().call({ ...call, verb: "DEL", netns: "" }, signal)).toBeUndefined();
});

test("a plugin that fails has its own words and code, and its log is kept", async () => {
  const stdout = JSON.stringify({ code: 100, msg: "no address", details: "10.1.0.0/30 is full" });
  await writePlugin(folder, "bridge", { ADD: { stdout, stderr: "line 1\n", exitCode: 1 } });
  const error = await failureOf(createBinaries().call(call, signal));
  expect(describeCniError(error)).toBe("bridge: no address: 10.1.0.0/30 is full (code 100)");
  expect(error.stderr).toBe("line 1\n");
});

test("a plugin that hangs is killed at its time limit, with what it has started", async () => {
  await writePlugin(folder, "bridge", { ADD: { before: `sleep 60 & echo $! > ${folder}/child; wait` } });
  const error = await failureOf(createBinaries(300).call(call, signal));
  expect(error).toMatchObject({ code: 0, message: `${folder}/bridge did not end within 300 ms`, plugin: "bridge" });
  const child = Number(await readFile(join(folder, "child"), "utf8"));
  await waitUntilDead(child);
});

test("a plugin has the time that its call has left, if that is less", async () => {
  await writePlugin(folder, "bridge", { ADD: { before: "sleep 60" }, DEL: { before: "sleep 60" } });
  const binaries = createBinaries().forCall(shareNoLocks, { ofPlugin: (verb) => (verb === "ADD" ? 300 : 0) });
  const killed = { code: 0, message: `${folder}/bridge did not end within 300 ms`, plugin: "bridge" };
  expect(await failureOf(binaries.call(call, signal))).toMatchObject(killed);
  expect(describeCniError(await failureOf(binaries.call({ ...call, verb: "DEL" }, signal)))).toBe(
    "bridge: it was not started: the call has no time left",
  );
  expect(await scriptedCalls(folder)).toMatchObject([{ verb: "ADD" }]);
});

test("a plugin is killed when the signal aborts", async () => {
  await writePlugin(folder, "bridge", { ADD: { before: "sleep 60" } });
  const abort = new AbortController();
  const running = createBinaries().call(call, abort.signal);
  abort.abort(new Error("the pod is deleted"));
  await expect(running).rejects.toThrow("the pod is deleted");
});

test("a plugin that prints 10 MB is killed, and the error is short", async () => {
  await writePlugin(folder, "bridge", { ADD: { before: "head -c 10000000 /dev/zero | tr '\\\\0' x" } });
  const error = await failureOf(createBinaries().call(call, signal));
  expect(error.message).toBe(`${folder}/bridge printed more than 1048576 bytes`);
  expect(error.details.length).toBeLessThan(600);
});

test("a plugin that ends by a signal says so", async () => {
  await writePlugin(folder, "bridge", { ADD: { before: "kill -9 $$" } });
  expect((await failureOf(createBinaries().call(call, signal))).message).toBe(`${folder}/bridge was killed by SIGKILL`);
});

test("a binary that is missing, a folder, a symlink loop or not executable is code 50, with what is to be done", async () => {
  const binaries = createBinaries();
  const inNone = `bridge: its binary is in none of the folders ${folder}/none, ${folder} (code 50)`;
  expect(describeCniError(await failureOf(binaries.call(call, signal)))).toBe(inNone);
  await mkdir(join(folder, "bridge"));
  expect(describeCniError(await failureOf(binaries.find("bridge")))).toBe(inNone);
  await writeFile(join(folder, "portmap"), "#!/bin/sh\n", { mode: 0o644 });
  expect(describeCniError(await failureOf(binaries.find("portmap")))).toBe(
    `portmap: ${folder}/portmap is not executable; chmod +x it (code 50)`,
  );
  await chmod(join(folder, "portmap"), 0o755);
  expect(await binaries.find("portmap")).toBe(join(folder, "portmap"));
  await symlink("loop", join(folder, "loop"));
  expect(await failureOf(binaries.call({ ...call, conf: { type: "loop" } }, signal))).toMatchObject({
    code: 50,
    message: `${folder}/loop is a loop of symlinks`,
  });
});

test("a binary that is no program, or that an installer is writing, is to be tried again", async () => {
  await writeFile(join(folder, "bridge"), "\x7fELF", { mode: 0o755 });
  const failure = {
    code: 11,
    message: expect.stringMatching(/bridge could not be run: it is no program .* being written$/),
  };
  expect(await failureOf(createBinaries().call(call, signal))).toMatchObject(failure);
  await copyFile("/bin/true", join(folder, "bridge"));
  const writer = await open(join(folder, "bridge"), "r+");
  expect(await failureOf(createBinaries().call(call, signal))).toMatchObject(failure);
  await writer.close();
  expect(await createBinaries().call(call, signal)).toBeUndefined();
});

test("the versions of a plugin", async () => {
  const stdout = '{"cniVersion":"1.1.0","supportedVersions":["0.4.0","1.0.0"]}';
  await writePlugin(folder, "bridge", { VERSION: { stdout } });
  expect(await createBinaries().versions("bridge", signal)).toEqual(["0.4.0", "1.0.0"]);
  expect(await scriptedCalls(folder)).toMatchObject([{ verb: "VERSION", conf: { cniVersion: "1.1.0" } }]);
});

/** A killed process ends soon; the kernel says when. */
async function waitUntilDead(pid: number): Promise<void> {
  const isAlive = () => {
    try {
      process.kill(pid, 0);
      return true;
    } catch {
      // ESRCH: it has ended.
      return false;
    }
  };
  for (let tries = 0; isAlive() && tries < 200; tries++) await Bun.sleep(10);
  expect(isAlive()).toBe(false);
}
