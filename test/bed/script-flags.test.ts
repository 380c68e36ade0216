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

for (const [script, program, itsOptions] of scripts) {
  test(`npm run ${script} refuses an option that it does not know in one line, and shows its own`, async () => {
    const { exitCode, stdout, stderr } = await run(program, "--arhc");
    expect([exitCode, stdout]).toEqual([2, ""]);
    const [problem, blank, ...usage] = stderr.split("\n");
    expect([problem, blank]).toEqual([`${script}: Unknown option '--arhc'`, ""]);
    for (const option of itsOptions) expect(usage.join("\n")).toContain(option);
  });

  test(`npm run ${script} shows its options when it is asked for help`, async () => {
    const { exitCode, stdout, stderr } = await run(program, "--help");
    expect([exitCode, stderr]).toEqual([0, ""]);
    for (const option of itsOptions) expect(stdout).toContain(option);
  });
}
