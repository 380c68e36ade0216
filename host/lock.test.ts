import { afterEach, beforeEach, expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { flock, takeLock } from "./lock.ts";

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-lock-"));
  path = join(folder, "lock");
});
afterEach(() => rm(folder, { recursive: true }));

/** Another process that takes the lock and keeps it until it is killed. Resolves when it has printed a line. */
async function startHolder(self: string) {
  const program = `
    import { takeLock } from ${JSON.stringify(join(import.meta.dirname, "lock.ts"))};
    const lock = takeLock(${JSON.stringify(path)}, ${JSON.stringify(self)});
    console.log(lock.held ? "held" : lock.holder);
    setTimeout(() => {}, 60_000);
  `;
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
  const { value } = await child.stdout.getReader().read();
  return { child, output: new TextDecoder().decode(value).trim() };
}

/** A child process that inherits the descriptor of a lock, until it is killed. */
const startChild = (descriptor: number) =>
  Bun.spawn(["sleep", "60"], { stdio: ["ignore", "ignore", "ignore", descriptor] });

test("a child that shares a lock keeps it when this process closes the descriptor, as its death does, and until the child ends", async () => {
  const lock = takeLock(path, "me");
  if (!lock.held) throw new Error("not held");
  const descriptor = lock.share();
  const child = startChild(descriptor);
  closeSync(descriptor);
  expect(takeLock(path, "another")).toEqual({ held: false, holder: "me" });
  child.kill("SIGKILL");
  await child.exited;
  const next = takeLock(path, "another");
  expect(next.held).toBe(true);
  if (next.held) next.release();
});

test("a release ends a lock that a child shares, though the child goes on", async () => {
  const lock = takeLock(path, "me");
  if (!lock.held) throw new Error("not held");
  const child = startChild(lock.share());
  lock.release();
  const next = takeLock(path, "another");
  expect(next.held).toBe(true);
  if (next.held) next.release();
  child.kill("SIGKILL");
  await child.exited;
});

test("a second process gets the holder's description, and the lock after its release", () => {
  const first = takeLock(path, "pid 1, node a");
  expect(first.held).toBe(true);
  expect(takeLock(path, "pid 2")).toEqual({ held: false, holder: "pid 1, node a" });
  if (first.held) first.release();
  const third = takeLock(path, "me");
  expect(third.held).toBe(true);
  expect(takeLock(path, "pid 4")).toEqual({ held: false, holder: "me" });
  if (third.held) third.release();
});

test("a held lock is distinguished from other errors", () => {
  const first = openSync(path, "w");
  const second = openSync(path, "w");
  expect([flock(first), flock(second), flock(first)]).toEqual([undefined, "EWOULDBLOCK", undefined]);
  closeSync(first);
  expect(flock(second)).toBeUndefined();
  closeSync(second);
  expect(flock(0x7fffffff)).toBe("EBADF");
});

test("another process gets the holder's description, and its lock is released when it is killed", async () => {
  const { child, output } = await startHolder("pid 7");
  expect(output).toBe("held");
  expect(takeLock(path, "me")).toEqual({ held: false, holder: "pid 7" });
  child.kill("SIGKILL");
  await child.exited;
  const ownLock = takeLock(path, "me");
  expect(ownLock.held).toBe(true);
  const second = await startHolder("pid 8");
  expect(second.output).toBe("me");
  second.child.kill("SIGKILL");
  if (ownLock.held) ownLock.release();
});

test("a program that we start does not inherit the lock", async () => {
  const ownLock = takeLock(path, "me");
  const child = Bun.spawn(["cat"], { stdin: "pipe", stdout: "pipe" });
  // Until it has printed something it may still be our fork, with all our descriptors.
  child.stdin.write("it runs\n");
  await child.stdout.getReader().read();
  if (ownLock.held) ownLock.release();
  const again = takeLock(path, "me again");
  expect(again.held).toBe(true);
  child.kill("SIGKILL");
  if (again.held) again.release();
});

test("the file is for root alone, and the previous holder's description is replaced", async () => {
  await writeFile(path, "pid 123456789, a very long name that is not ours\n", { mode: 0o600 });
  const ownLock = takeLock(path, "me");
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await Bun.file(path).text()).toBe("me\n");
  if (ownLock.held) ownLock.release();
});

test("a removed lock leaves no file, and the next one creates its own", async () => {
  const first = takeLock(path, "me");
  if (first.held) first.remove();
  await expect(stat(path)).rejects.toThrow("ENOENT");
  const second = takeLock(path, "me again");
  expect(takeLock(path, "another")).toEqual({ held: false, holder: "me again" });
  if (second.held) second.release();
});

test("a symlink instead of the lock file is not followed", async () => {
  await symlink(join(folder, "elsewhere"), path);
  const refused = expect.objectContaining({ name: "FilesError", code: "ELOOP", path });
  expect(() => takeLock(path, "me")).toThrow(refused);
  await expect(stat(join(folder, "elsewhere"))).rejects.toThrow("ENOENT");
});

test("the error names a path where no file can be created", () => {
  for (const [badPath, code] of [
    [join(folder, "none/lock"), "ENOENT"],
    [folder, "EISDIR"],
  ] as const)
    expect(() => takeLock(badPath, "me")).toThrow(expect.objectContaining({ name: "FilesError", code, path: badPath }));
});

test("a shared lock has several holders, and none while another one holds it exclusively", () => {
  const shared = [takeLock(path, "a", "shared"), takeLock(path, "b", "shared")];
  expect(shared.map(({ held }) => held)).toEqual([true, true]);
  expect(takeLock(path, "c").held).toBe(false);
  for (const lock of shared) if (lock.held) lock.release();
  const exclusive = takeLock(path, "c");
  expect(exclusive.held).toBe(true);
  expect(takeLock(path, "d", "shared")).toEqual({ held: false, holder: "c" });
  if (exclusive.held) exclusive.remove();
});
