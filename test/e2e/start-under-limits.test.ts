import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { createMounts } from "../../host/fs/mounts.ts";
import { builtBinary, keepsKernelTunables, kubeletConfiguration } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import { pollUntil } from "../bed/poll-until.ts";

/* The start of the compiled agent where the machine refuses something. No container runtime runs. */

let folder = "";
let root = "";
let config = "";
let mounts: string[] = [];

beforeEach(async () => {
  await buildIfStale();
  folder = await mkdtemp(join(tmpdir(), "berth-hostile-"));
  root = join(folder, "root");
  config = join(folder, "kubelet.json");
  mounts = [];
  const paths = pathsBelow(folder);
  await mkdir(root);
  await mkdir(paths.manifests);
  await writeFile(config, kubeletConfiguration(paths));
}, 600_000);
afterEach(async () => {
  for (const mount of mounts) await execa("umount", [mount]);
  // The agent has made it a shared mount.
  await createMounts().unmount(root);
  await rm(folder, { recursive: true });
});

const pathsBelow = (parent: string) => ({
  manifests: join(parent, "manifests"),
  podLogs: join(parent, "logs"),
  endpoint: `unix://${parent}/none.sock`,
});

const runArgv = () => [builtBinary, "run", "--config", config, "--root-dir", root, keepsKernelTunables] as const;

/** A tmpfs of these limits at `path`. */
async function mountTmpfs(path: string, limits: string): Promise<void> {
  await execa("mount", ["-t", "tmpfs", "-o", `${limits},mode=750`, "none", path]);
  mounts.push(path);
}

/** Starts the agent by a shell script that ends with `exec "$@"`, in an environment that gets nothing of this process. */
function start(script: string, env: Readonly<Record<string, string>> = {}) {
  const child = Bun.spawn(["sh", "-c", script, "sh", ...runArgv()], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdout: "ignore",
    stderr: "pipe",
  });
  let log = "";
  const reading = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
  })();
  return {
    child,
    logLine: (words: string) =>
      pollUntil(`the log line "${words}" in:\n${log}`, 10_000, () =>
        log.split("\n").find((line) => line.includes(words)),
      ),
    async end() {
      child.kill("SIGTERM");
      const exitCode = await child.exited;
      await reading;
      return { exitCode, log };
    },
  };
}

test("a disk without inodes refuses the start in one line, before the agent says that it runs", async () => {
  // One for the directory itself, the lock and each of the two sockets.
  await mountTmpfs(root, "nr_inodes=4");
  const [program, ...args] = runArgv();
  const { stderr, exitCode } = await execa(program, args, { reject: false, timeout: 60_000 });
  expect(stderr.split("\n").at(-1)).toBe(
    `cannot read the pod checkpoints: ${root}/berth cannot be written: the disk has no inodes left: fix that, or set --root-dir to another directory`,
  );
  expect(exitCode).toBe(1);
  expect(stderr).not.toContain("berth is running");
}, 600_000);

test("a start without enough file descriptors is refused in one line, before the agent says that it runs", async () => {
  const refusals: string[] = [];
  // Which call is the first to fail depends on the limit. Below seven the runtime of the program itself does not start.
  for (let limit = 7; limit <= 12; limit++) {
    await writeFile(config, kubeletConfiguration(pathsBelow(folder), { maxOpenFiles: limit }));
    const { child, logLine, end } = start(`ulimit -n ${limit}; exec "$@"`);
    const isRunning = logLine("berth is running").then(
      () => true,
      () => false,
    );
    if (await Promise.race([isRunning, child.exited.then(() => false)])) await end();
    else refusals.push((await end()).log);
  }
  expect(refusals.length).toBeGreaterThan(0);
  for (const log of refusals) {
    expect(log).not.toContain("berth is running");
    expect(log.trimEnd().split("\n").at(-1)).toMatch(
      /^cannot .*EMFILE: too many open files.*: raise the limit of open files /,
    );
  }
}, 600_000);

test("a limit of the address space that is too low is named", async () => {
  const { child, end } = start('ulimit -v 2097152; exec "$@"');
  expect(await child.exited).toBe(1);
  expect((await end()).log).toContain("a limit of the address space (RLIMIT_AS, ulimit -v) must be 4 GiB or more");
}, 600_000);

test("a machine without an inotify instance is logged once as an error", async () => {
  // In a user namespace of its own, whose limit binds no other process.
  const { logLine, end } = start(
    'exec unshare --user --map-root-user sh -c "echo 0 > /proc/sys/user/max_inotify_instances; exec \\"\\$@\\"" sh "$@"',
  );
  const line = await logLine("cannot be watched");
  expect(line).toMatch(/^\S+ error .* no inotify instance is left .*; changes are found every 20 s only/);
  expect((await end()).exitCode).toBe(0);
}, 600_000);

test("signals without a meaning are logged and ignored", async () => {
  const { child, logLine, end } = start('exec "$@"');
  await logLine("berth is running");
  for (const signal of ["SIGUSR1", "SIGUSR2", "SIGHUP"] as const) {
    child.kill(signal);
    expect(await logLine(`signal=${signal}`)).toContain("the signal is ignored");
  }
  expect((await end()).exitCode).toBe(0);
}, 600_000);

test("a program that cannot execute itself again goes on and warns", async () => {
  // The kernel limits arguments and environment together: at the limit nothing can be added.
  const tooLong = 126;
  const script = 'ulimit -s 512; exec "$@"';
  const startWith = (bytes: number) => start(script, { FILLER: "x".repeat(bytes / 2), FILLER2: "x".repeat(bytes / 2) });
  const fits = async (bytes: number): Promise<boolean> => {
    const { child, logLine, end } = startWith(bytes);
    const hasFailed = child.exited.then((code) => code === tooLong);
    const hasStarted = logLine("berth is running").then(
      () => false,
      () => true,
    );
    const isTooLong = await Promise.race([hasFailed, hasStarted]);
    await end();
    return !isTooLong;
  };
  let bytes = 120_000;
  for (let step = 8_192; step >= 32; step /= 2) while (await fits(bytes + step)) bytes += step;
  const agent = startWith(bytes);
  expect(await agent.logLine("cannot execute itself again")).toMatch(/^\S+ warn .*E2BIG.* UV_THREADPOOL_SIZE=8 /);
  await agent.logLine("berth is running");
  expect((await agent.end()).exitCode).toBe(0);
}, 600_000);
