import { expect, test } from "bun:test";
import { readdir, readFile } from "node:fs/promises";
import { until } from "../test/bed/poll-until.ts";
import { createExec, ExecError } from "./exec.ts";

const exec = createExec();
const patience = { timeoutMs: 10_000 };

/** The programs that run with this word among their arguments. */
async function running(word: string): Promise<readonly string[]> {
  const ids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  // A program may end while it is looked at.
  const lines = await Promise.all(ids.map((id) => readFile(`/proc/${id}/cmdline`, "utf8").catch(() => "")));
  return lines.filter((line) => line.split("\0").includes(word));
}

/** A child and a grandchild of one group, which both hold the pipes; `word` tells them from all others. */
function family(): { readonly argv: [string, ...string[]]; readonly word: string } {
  const word = `60.${process.hrtime.bigint()}`;
  return { argv: ["timeout", "--foreground", word, "sleep", word], word };
}

test("arguments reach the program as they are: no shell ever reads them", async () => {
  const words = ["$HOME", "`id`", "$(id)", "a b", "*", ";", "'", '"', "\\", ">x", ""];
  const { stdout } = await exec.run(["printf", "%s\\n", ...words], { ...patience });
  expect(stdout).toBe(`${words.join("\n")}\n`);
});

test("both outputs are told apart, and nothing is taken from their ends", async () => {
  const { stdout, stderr } = await exec.run(["/bin/dd", "if=/proc/self/comm", "status=noxfer"], patience);
  expect(stdout).toBe("dd\n");
  expect(stderr).toContain("records in");
});

test("the program gets the input, and none where there is none", async () => {
  expect((await exec.run(["cat"], { ...patience, stdin: "grüße\n" })).stdout).toBe("grüße\n");
  expect((await exec.run(["cat"], patience)).stdout).toBe("");
});

test("the environment is what was given: nothing of ours is inherited", async () => {
  process.env["BERTH_TEST_SECRET"] = "s3cret";
  try {
    expect((await exec.run(["/usr/bin/env"], patience)).stdout).toBe("");
    expect((await exec.run(["/usr/bin/env"], { ...patience, env: { A: "1" } })).stdout).toBe("A=1\n");
  } finally {
    delete process.env["BERTH_TEST_SECRET"];
  }
});

test("it runs at the root, or where it is told to", async () => {
  expect((await exec.run(["/bin/pwd"], patience)).stdout).toBe("/\n");
  expect((await exec.run(["/bin/pwd"], { ...patience, cwd: "/proc" })).stdout).toBe("/proc\n");
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

test("another exit code than 0 is an error that has it, with what the program said", async () => {
  const argv = ["cat", "/does-not-exist"] as const;
  const error = await failureOf(exec.run(argv, patience));
  expect(error.exitCode).toBe(1);
  expect(error.argv).toEqual(argv);
  expect(error.stderr).toContain("/does-not-exist");
});

test("a program that is not there has no exit code", async () => {
  const error = await failureOf(exec.run(["/does-not-exist"], patience));
  expect(error.exitCode).toBeUndefined();
  expect(error.message).toContain("/does-not-exist");
});

const endings: readonly [sentence: string, argv: readonly [string, ...string[]], words: string][] = [
  ["has failed", ["cat", "/hunter2"], "cat ended with code 1"],
  ["was killed", ["timeout", "--signal=KILL", "0.05", "sleep", "60.1234"], "timeout was ended by SIGKILL"],
  ["is not there", ["/does-not-exist", "hunter2"], "/does-not-exist could not be run: ENOENT"],
  ["is no program", ["/etc/passwd", "hunter2"], "/etc/passwd could not be run: EACCES"],
];
for (const [sentence, argv, words] of endings)
  test(`the message for a program that ${sentence} says how it ended, and none of its arguments`, async () => {
    expect((await failureOf(exec.run(argv, patience))).message).toBe(words);
  });

test("neither input nor environment are part of an error", async () => {
  const options = { ...patience, stdin: "s3cret input", env: { TOKEN: "s3cret value" } };
  const error = await failureOf(exec.run(["/bin/false"], options));
  expect(Bun.inspect(error)).not.toContain("s3cret");
});

test("at the deadline the whole group ends, grandchildren that hold the pipes too", async () => {
  const { argv, word } = family();
  const { message, exitCode } = await failureOf(exec.run(argv, { timeoutMs: 150 }));
  expect(message).toBe("timeout did not end within 150 ms");
  expect(exitCode).toBeUndefined();
  await until("both to be gone", 5000, async () => (await running(word)).length === 0);
});

test("the same happens when the caller gives it up", async () => {
  const { argv, word } = family();
  const ending = new AbortController();
  const failed = failureOf(exec.run(argv, { ...patience, signal: ending.signal }));
  await until("both to run", 5000, async () => (await running(word)).length === 2);
  ending.abort();
  expect((await failed).message).toBe("timeout was given up");
  await until("both to be gone", 5000, async () => (await running(word)).length === 0);
});

test("what was given up before it began does not run on", async () => {
  const { argv, word } = family();
  await failureOf(exec.run(argv, { ...patience, signal: AbortSignal.abort() }));
  await until("none to run", 5000, async () => (await running(word)).length === 0);
});

test("a program that prints more than allowed is ended, and that is an error", async () => {
  for (const argv of [["yes"], ["head", "-c", "1001", "/dev/zero"]] as const) {
    const error = await failureOf(exec.run(argv, { ...patience, maxOutputBytes: 1000 }));
    expect(error.message).toBe(`${argv[0]} printed more than 1000 bytes`);
  }
});

test("a program that prints exactly what is allowed is fine", async () => {
  const { stdout } = await exec.run(["head", "-c", "1000", "/dev/zero"], { ...patience, maxOutputBytes: 1000 });
  expect(stdout).toHaveLength(1000);
});
