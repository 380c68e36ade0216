import { expect, test } from "bun:test";
import { describeFailures, runContract } from "./run-contract.ts";

/** A guest in which the tests have this output and this report. */
const guestWith = (code: string, output: string, cases: string) => ({
  run: async (command: string) => {
    if (command.includes("bun test ")) return code;
    return command.startsWith("cat ") ? output : `<testsuites>${cases}</testsuites>`;
  },
});
const passed = '<testcase name="makes a cgroup" classname="cgroupfs" />';

test("tests that pass are no failure", async () => {
  const { outcome } = await runContract(guestWith("0", "1 pass", passed));
  expect(outcome).toMatchObject({ passed: 1, failed: [], skipped: [] });
});

test("a skipped test is a failure", async () => {
  const skipped = '<testcase name="holds memory" classname="systemd"><skipped /></testcase>';
  const result = await runContract(guestWith("0", "1 pass\n1 skip", passed + skipped));
  const failure = "systemd > holds memory (skipped, but every test must run here)";
  expect(result.outcome).toMatchObject({ passed: 1, failed: [failure], skipped: [] });
  expect(describeFailures(result)).toContain(failure);
});

test("no test at all is a failure", async () => {
  expect((await runContract(guestWith("0", "", ""))).outcome.failed).toEqual(["no test ran"]);
});
