import { expect, test } from "bun:test";
import { closeSync, openSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pollUntil } from "../test/bed/poll-until.ts";
import { createExec, ExecError } from "./exec.ts";

const exec = createExec();
const runOptions = { timeoutMs: 10_000 };

/** The processes with this word among their arguments. */
async function running(marker: string): Promise<readonly string[]> {
  const ids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  // A process may end while it is inspected.
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, "utf8").catch(() => "")));
  return lines.filter((line) => line.split("\0").includes(marker));
}

/** A child and a grandchild in one process group, which both hold the pipes; `marker` identifies them. */
function createProcessGroup(): { readonly argv: [string, ...string[]]; readonly marker: string } {
  const marker = `60.${process.hrtime.bigint()}`;
  return { argv: ["timeout", "--foreground", marker, "sleep", marker], marker };
}

test("arguments reach the program unchanged, without a shell", async () => {
  const words = ["$HOME", "`id`", "$(id)", "a b", "*", ";", "'", '"', "\\", ">x", ""];
  const { stdout } = await exec.run(["printf", "%s\\n", ...words], { ...runOptions });
  expect(stdout).toBe(`${words.join("\n")}\n`);
});

test("stdout and stderr are separate, and nothing is trimmed", async () => {
  const { stdout, stderr } = await exec.run(["/bin/dd", "if=/proc/self/comm", "status=noxfer"], runOptions);
  expect(stdout).toBe("dd\n");
  expect(stderr).toContain("records in");
});

test("what a program prints is passed on while it runs", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-exec-"));
  try {
    const path = join(folder, "file");
    await writeFile(path, "grüße\n");
    const abort = new AbortController();
    let text = "";
    const onStdout = (piece: string) => {
      text += piece;
      if (text.endsWith("\n")) abort.abort();
    };
    const run = exec.run(["tail", "-f", path], { ...runOptions, signal: abort.signal, onStdout });
    expect((await failureOf(run)).message).toBe("tail was cancelled");
    expect(text).toBe("grüße\n");
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("the program gets the given stdin, and an empty one if none is given", async () => {
  expect((await exec.run(["cat"], { ...runOptions, stdin: "grüße\n" })).stdout).toBe("grüße\n");
  expect((await exec.run(["cat"], runOptions)).stdout).toBe("");
});

test("the environment is the given one, and nothing is inherited", async () => {
  process.env["BERTH_TEST_SECRET"] = "s3cret";
  try {
    expect((await exec.run(["/usr/bin/env"], runOptions)).stdout).toBe("");
    expect((await exec.run(["/usr/bin/env"], { ...runOptions, env: { A: "1" } })).stdout).toBe("A=1\n");
  } finally {
    delete process.env["BERTH_TEST_SECRET"];
  }
});

test("a program inherits the given descriptors, from 3 on, and no other", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-exec-"));
  const descriptors = ["a", "b", "c"].map((name) => openSync(join(folder, name), "w"));
  try {
    const read = async (inheritedDescriptors: readonly number[]) => {
      const { stdout } = await exec.run(["/bin/ls", "-l", "/proc/self/fd"], { ...runOptions, inheritedDescriptors });
      return [...stdout.matchAll(/ (\d+) -> (.*)$/gm)].flatMap(([, number, path]) =>
        path?.startsWith(folder) ? [`${number} ${basename(path)}`] : [],
      );
    };
    expect(await read(descriptors.slice(1))).toEqual(["3 b", "4 c"]);
    expect(await read([])).toEqual([]);
  } finally {
    for (const descriptor of descriptors) closeSync(descriptor);
    await rm(folder, { recursive: true });
  }
});

test("it runs in the root directory", async () => {
  expect((await exec.run(["/bin/pwd"], runOptions)).stdout).toBe("/\n");
});

async function failureOf(run: Promise<unknown>): Promise<ExecError> {
  try {
    await run;
  } catch (error) {
    if (error instanceof ExecError) return error;
    throw error;
  }
  throw new Error("it did not fail");
}

test("an exit code other than 0 is an error with the code and stderr", async () => {
  const argv = ["cat", "/does-not-exist"] as const;
  const error = await failureOf(exec.run(argv, runOptions));
  expect(error.exitCode).toBe(1);
  expect(error.argv).toEqual(argv);
  expect(error.stderr).toContain("/does-not-exist");
});

test("a missing program has no exit code", async () => {
  const error = await failureOf(exec.run(["/does-not-exist"], runOptions));
  expect(error.exitCode).toBeUndefined();
  expect(error.message).toContain("/does-not-exist");
});

const endings: readonly [sentence: string, argv: readonly [string, ...string[]], words: string][] = [
  ["has failed", ["cat", "/hunter2"], "cat exited with code 1"],
  ["was killed", ["timeout", "--signal=KILL", "0.05", "sleep", "60.1234"], "timeout was killed by SIGKILL"],
  ["does not exist", ["/does-not-exist", "hunter2"], "/does-not-exist could not be run: ENOENT"],
  ["is not executable", ["/etc/passwd", "hunter2"], "/etc/passwd could not be run: EACCES"],
];
for (const [sentence, argv, words] of endings)
  test(`the message for a program that ${sentence} says how it ended, and contains no arguments`, async () => {
    expect((await failureOf(exec.run(argv, runOptions))).message).toBe(words);
  });

test("an error contains neither stdin nor the environment", async () => {
  const options = { ...runOptions, stdin: "s3cret input", env: { TOKEN: "s3cret value" } };
  const error = await failureOf(exec.run(["/bin/false"], options));
  expect(Bun.inspect(error)).not.toContain("s3cret");
});

test("at the deadline the whole process group is killed, including grandchildren that hold the pipes", async () => {
  const { argv, marker } = createProcessGroup();
  const { message, exitCode } = await failureOf(exec.run(argv, { timeoutMs: 150 }));
  expect(message).toBe("timeout did not end within 150 ms");
  expect(exitCode).toBeUndefined();
  await pollUntil("both to be gone", 5000, async () => (await running(marker)).length === 0);
});

test("the signal kills the whole process group", async () => {
  const { argv, marker } = createProcessGroup();
  const ending = new AbortController();
  const failed = failureOf(exec.run(argv, { ...runOptions, signal: ending.signal }));
  await pollUntil("both to run", 5000, async () => (await running(marker)).length === 2);
  ending.abort();
  expect((await failed).message).toBe("timeout was cancelled");
  await pollUntil("both to be gone", 5000, async () => (await running(marker)).length === 0);
});

test("a signal that has aborted already kills the program at once", async () => {
  const { argv, marker } = createProcessGroup();
  await failureOf(exec.run(argv, { ...runOptions, signal: AbortSignal.abort() }));
  await pollUntil("none to run", 5000, async () => (await running(marker)).length === 0);
});

test("a program that prints more than allowed is killed, and that is an error", async () => {
  for (const argv of [["yes"], ["head", "-c", "1001", "/dev/zero"]] as const) {
    const error = await failureOf(exec.run(argv, { ...runOptions, maxOutputBytes: 1000 }));
    expect(error.message).toBe(`${argv[0]} printed more than 1000 bytes`);
  }
});

test("a program that prints exactly the allowed number of bytes succeeds", async () => {
  const { stdout } = await exec.run(["head", "-c", "1000", "/dev/zero"], { ...runOptions, maxOutputBytes: 1000 });
  expect(stdout).toHaveLength(1000);
});

test("a file that is no program cannot be run, and the error says so", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-exec-"));
  const path = join(folder, "program");
  await writeFile(path, "\x7fELF", { mode: 0o755 });
  const failure = await exec.run([path], runOptions).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(ExecError);
  expect((failure as ExecError).message).toBe(
    `${path} could not be run: it is no program of this machine, or is just being written`,
  );
  await rm(folder, { recursive: true });
});
