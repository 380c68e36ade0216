import { expect, test } from "bun:test";
import { join } from "node:path";

/** A process that prints the signals it received, and then takes its time. */
function startSlowProcess(hasTerminal = false) {
  const program = `
    import { handleSignals } from ${JSON.stringify(join(import.meta.dirname, "signals.ts"))};
    handleSignals({
      hasTerminal: ${hasTerminal},
      onTermination: (signal) => console.log(signal),
      onIgnored: (signal) => console.log("ignored " + signal),
    });
    console.log("ready");
    setTimeout(() => {}, 60_000);
  `;
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
  const reader = child.stdout.getReader();
  const output = async () => new TextDecoder().decode((await reader.read()).value);
  return { child, output };
}

const rows: readonly [first: NodeJS.Signals, second: NodeJS.Signals, exitCode: number, hasTerminal: boolean][] = [
  ["SIGTERM", "SIGTERM", 143, false],
  ["SIGINT", "SIGINT", 130, false],
  ["SIGHUP", "SIGTERM", 143, true],
  ["SIGTERM", "SIGHUP", 129, true],
];
for (const [first, second, exitCode, hasTerminal] of rows)
  test(`${first} is reported once, and ${second} after it ends the process at once with ${exitCode}`, async () => {
    const { child, output } = startSlowProcess(hasTerminal);
    expect(await output()).toBe("ready\n");
    child.kill(first);
    expect(await output()).toBe(`${first}\n`);
    child.kill(second);
    expect(await child.exited).toBe(exitCode);
    expect(await output()).toBe("");
  });

test("SIGUSR1 and SIGUSR2 are reported each time and ignored, and so is SIGHUP without a terminal", async () => {
  const { child, output } = startSlowProcess();
  expect(await output()).toBe("ready\n");
  for (const signal of ["SIGUSR1", "SIGUSR2", "SIGHUP", "SIGUSR1"] as const) {
    child.kill(signal);
    expect(await output()).toBe(`ignored ${signal}\n`);
  }
  child.kill("SIGTERM");
  expect(await output()).toBe("SIGTERM\n");
  child.kill("SIGTERM");
  expect(await child.exited).toBe(143);
});
