import { expect, test } from "bun:test";
import { join } from "node:path";

/** A process that prints the signal it received, and then takes its time. */
function startSlowProcess() {
  const program = `
    import { onTermination } from ${JSON.stringify(join(import.meta.dirname, "signals.ts"))};
    onTermination((signal) => console.log(signal));
    console.log("ready");
    setTimeout(() => {}, 60_000);
  `;
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
  const reader = child.stdout.getReader();
  const output = async () => new TextDecoder().decode((await reader.read()).value);
  return { child, output };
}

const rows: readonly [first: NodeJS.Signals, second: NodeJS.Signals, exitCode: number][] = [
  ["SIGTERM", "SIGTERM", 143],
  ["SIGINT", "SIGINT", 130],
  ["SIGHUP", "SIGTERM", 143],
];
for (const [first, second, exitCode] of rows)
  test(`${first} is reported once, and ${second} after it ends the process at once with ${exitCode}`, async () => {
    const { child, output } = startSlowProcess();
    expect(await output()).toBe("ready\n");
    child.kill(first);
    expect(await output()).toBe(`${first}\n`);
    child.kill(second);
    expect(await child.exited).toBe(exitCode);
    expect(await output()).toBe("");
  });
