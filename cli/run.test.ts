import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const program = join(import.meta.dirname, "main.ts");
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-run-"));
});
afterEach(() => rm(folder, { recursive: true }));

/** Runs `berth run`, which is expected to refuse. */
async function run(root: string, ...more: readonly string[]) {
  const file = join(folder, "kubelet.json");
  const configuration = {
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    staticPodPath: folder,
    containerRuntimeEndpoint: `unix://${folder}/none.sock`,
    cgroupsPerQOS: false,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
  };
  await writeFile(file, JSON.stringify(configuration));
  const argv = [process.execPath, program, "run", "--config", file, "--root-dir", root, ...more];
  const child = Bun.spawn(argv, { stderr: "pipe", stdout: "ignore" });
  const [text, exitCode] = await Promise.all([child.stderr.text(), child.exited]);
  const lines = text.trimEnd().split("\n");
  // What was logged before the refusal begins with a time.
  return { exitCode, refusal: lines.filter((line) => !/^\d\d:\d\d:\d\d\.\d{3} /.test(line)) };
}

const refusals: readonly (readonly [sentence: string, prepare: (root: string) => Promise<unknown>, says: string])[] = [
  [
    "a root directory that is a file",
    (root) => writeFile(root, ""),
    "there can be no root directory: ROOT is there, and is no folder: put that in order, or give --root-dir another folder",
  ],
  [
    "a lock that is a folder",
    (root) => mkdir(join(root, "berth.lock"), { recursive: true }),
    "the root directory cannot be locked: ROOT/berth.lock is a directory, not a regular file: remove it",
  ],
  [
    "a lock that is a symlink",
    async (root) => {
      await mkdir(root);
      await symlink("/dev/null", join(root, "berth.lock"));
    },
    "the root directory cannot be locked: ROOT/berth.lock is a symlink, and no lock is taken through one: remove it",
  ],
  [
    "a socket whose place is taken",
    (root) => mkdir(join(root, "berth.sock"), { recursive: true }),
    "berth pods could not be answered: ROOT/berth.sock failed: EADDRINUSE",
  ],
  [
    "records of pods that cannot be read",
    async (root) => {
      await mkdir(root);
      await writeFile(join(root, "berth"), "");
    },
    "the records of earlier pods cannot be read: ROOT/berth is there, and is no folder",
  ],
];
for (const [sentence, prepare, says] of refusals)
  test(`${sentence}: one line, and exit code 1`, async () => {
    const root = join(folder, "root");
    await prepare(root);
    const { exitCode, refusal } = await run(root);
    expect(refusal).toEqual([expect.stringContaining(says.replace("ROOT", root))]);
    expect(exitCode).toBe(1);
  });

test("a root directory below a file: one line, and exit code 1", async () => {
  await writeFile(join(folder, "file"), "");
  const { exitCode, refusal } = await run(join(folder, "file/root"));
  const says = `there can be no root directory: ${folder}/file/root lies below something that is no folder`;
  expect(refusal).toEqual([expect.stringContaining(says)]);
  expect(exitCode).toBe(1);
});

test("a root directory with too long a name for its socket: one line, and exit code 1", async () => {
  const { exitCode, refusal } = await run(join(folder, "x".repeat(100)));
  expect(refusal).toEqual([expect.stringContaining("berth.sock is longer than the 107 bytes")]);
  expect(exitCode).toBe(1);
});

test("a runtime's socket with too long a name is wrong configuration: one line, and exit code 2", async () => {
  const endpoint = `unix:///run/${"x".repeat(100)}.sock`;
  const { exitCode, refusal } = await run(join(folder, "root"), `--container-runtime-endpoint=${endpoint}`);
  expect(refusal).toEqual([
    expect.stringMatching(/^--container-runtime-endpoint: found "unix:.*, its path at most 107 bytes long$/),
  ]);
  expect(exitCode).toBe(2);
});

test("a working directory that is gone: one line, and exit code 1", async () => {
  const gone = join(folder, "gone");
  await mkdir(gone);
  const argv = ["sh", "-c", 'rmdir "$1"; shift; exec "$@"', "sh", gone, process.execPath, program, "run"];
  const child = Bun.spawn(argv, { cwd: gone, stderr: "pipe", stdout: "ignore" });
  const [text, exitCode] = await Promise.all([child.stderr.text(), child.exited]);
  expect(text).toBe("the working directory is gone: change to one that is there\n");
  expect(exitCode).toBe(1);
});
