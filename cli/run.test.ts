import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMounts } from "../host/fs/mounts.ts";

const program = join(import.meta.dirname, "main.ts");
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-run-"));
});
afterEach(async () => {
  // The agent makes its root directory a mount point, if the machine's root is no shared mount.
  await createMounts().unmount(join(folder, "root"));
  await rm(folder, { recursive: true });
});

/** Runs `berth run`, which must fail at the start. */
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
    failSwapOn: false,
    oomScoreAdj: 0,
    maxOpenFiles: 4096,
  };
  await writeFile(file, JSON.stringify(configuration));
  const argv = [process.execPath, program, "run", "--config", file, "--root-dir", root, ...more];
  const child = Bun.spawn(argv, { stderr: "pipe", stdout: "ignore" });
  const [text, exitCode] = await Promise.all([child.stderr.text(), child.exited]);
  const lines = text.trimEnd().split("\n");
  // Lines that were logged before the failure begin with a time.
  return { exitCode, refusal: lines.filter((line) => !/^\d\d:\d\d:\d\d\.\d{3} /.test(line)) };
}

const refusals: readonly (readonly [sentence: string, prepare: (root: string) => Promise<unknown>, says: string])[] = [
  [
    "a root directory that is a regular file",
    (root) => writeFile(root, ""),
    "cannot create the root directory: ROOT exists and is not a directory: fix that, or set --root-dir to another directory",
  ],
  [
    "a lock file that is a directory",
    (root) => mkdir(join(root, "berth.lock"), { recursive: true }),
    "cannot lock the root directory: ROOT/berth.lock is a directory, not a regular file: remove it",
  ],
  [
    "a lock file that is a symlink",
    async (root) => {
      await mkdir(root);
      await symlink("/dev/null", join(root, "berth.lock"));
    },
    "cannot lock the root directory: ROOT/berth.lock is a symlink; a lock file must not be one: remove it",
  ],
  [
    "a directory in place of the socket",
    (root) => mkdir(join(root, "berth.sock"), { recursive: true }),
    "cannot serve berth pods: ROOT/berth.sock is a directory",
  ],
  [
    "pod checkpoints that cannot be read",
    async (root) => {
      await mkdir(root);
      await writeFile(join(root, "berth"), "");
    },
    "cannot read the pod checkpoints: ROOT/berth exists and is not a directory",
  ],
];
for (const [sentence, prepare, says] of refusals)
  test(`run prints one line and exits with code 1 for ${sentence}`, async () => {
    const root = join(folder, "root");
    await prepare(root);
    const { exitCode, refusal } = await run(root);
    expect(refusal).toEqual([expect.stringContaining(says.replace("ROOT", root))]);
    expect(exitCode).toBe(1);
  });

test("run prints one line and exits with code 1 for a root directory below a file", async () => {
  await writeFile(join(folder, "file"), "");
  const { exitCode, refusal } = await run(join(folder, "file/root"));
  const says = `cannot create the root directory: ${folder}/file/root is below something that is not a directory`;
  expect(refusal).toEqual([expect.stringContaining(says)]);
  expect(exitCode).toBe(1);
});

test("run prints one line and exits with code 1 for a root directory too long for its socket", async () => {
  const { exitCode, refusal } = await run(join(folder, "x".repeat(100)));
  expect(refusal).toEqual([expect.stringContaining("berth.sock is longer than the 107 bytes")]);
  expect(exitCode).toBe(1);
});

test("run prints one line and exits with code 2 for a runtime socket with too long a path", async () => {
  const endpoint = `unix:///run/${"x".repeat(100)}.sock`;
  const { exitCode, refusal } = await run(join(folder, "root"), `--container-runtime-endpoint=${endpoint}`);
  expect(refusal).toEqual([
    expect.stringMatching(/^--container-runtime-endpoint: found "unix:.*, its path at most 107 bytes long$/),
  ]);
  expect(exitCode).toBe(2);
});

test("run prints one line and exits with code 1 for reservations above what the machine has", async () => {
  const { exitCode, refusal } = await run(join(folder, "root"), "--kube-reserved=cpu=99999", "--system-reserved=cpu=1");
  expect(refusal).toEqual([
    expect.stringMatching(
      /^more is reserved than the machine has: cpu \d+, but systemReserved 1 \+ kubeReserved 99999 = 100k\. Reserve less/,
    ),
  ]);
  expect(exitCode).toBe(1);
});

test("run prints one line and exits with code 1 for a deleted working directory", async () => {
  const gone = join(folder, "gone");
  await mkdir(gone);
  const argv = ["sh", "-c", 'rmdir "$1"; shift; exec "$@"', "sh", gone, process.execPath, program, "run"];
  const child = Bun.spawn(argv, { cwd: gone, stderr: "pipe", stdout: "ignore" });
  const [text, exitCode] = await Promise.all([child.stderr.text(), child.exited]);
  expect(text).toBe("the working directory no longer exists: change to an existing one\n");
  expect(exitCode).toBe(1);
});
