import { expect, test } from "bun:test";
import { join } from "node:path";
import { execa } from "execa";

const repository = join(import.meta.dirname, "..", "..");
const run = (program: string, option: string) =>
  execa(process.execPath, [program, option], { cwd: repository, reject: false });

const scripts: readonly (readonly [script: string, program: string, itsOptions: readonly string[]])[] = [
  ["up", "test/bed/up.ts", ["--once", "--fresh"]],
  ["reset", "test/bed/reset.ts", ["--all"]],
  ["build", "cli/build.ts", ["--arch"]],
];

for (const [script, program, flagNames] of scripts) {
  test(`npm run ${script} refuses an unknown option in one line and shows its usage`, async () => {
    const { exitCode, stdout, stderr } = await run(program, "--arhc");
    expect([exitCode, stdout]).toEqual([2, ""]);
    const [problem, blank, ...usage] = stderr.split("\n");
    expect([problem, blank]).toEqual([`${script}: Unknown option '--arhc'`, ""]);
    for (const option of flagNames) expect(usage.join("\n")).toContain(option);
  });

  test(`npm run ${script} --help shows its options`, async () => {
    const { exitCode, stdout, stderr } = await run(program, "--help");
    expect([exitCode, stderr]).toEqual([0, ""]);
    for (const option of flagNames) expect(stdout).toContain(option);
  });
}
