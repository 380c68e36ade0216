import { expect, test } from "bun:test";
import { join } from "node:path";

/** A process that says which signal has ended it, and then takes its time. */
function slowToEnd() {
  const program = `
    import { onTermination } from ${JSON.stringify(join(import.meta.dirname, "signals.ts"))};
    onTermination((signal) => console.log(signal));
    console.log("ready");
    setTimeout(() => {}, 60_000);
  `;
  const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
  const reader = child.stdout.getReader();
  const said = async () => new TextDecoder().decode((await reader.read()).value);
  return { child, said };
}

const rows: readonly [first: NodeJS.Signals, second: NodeJS.Signals, exitCode: number][] = [
  ["SIGTERM", "SIGTERM", 143],
  ["SIGINT", "SIGINT", 130],
  ["SIGHUP", "SIGTERM", 143],
];
for (const [first, second, exitCode] of rows)
  test(`${first} is told once, and ${second} after it ends the process at once with ${exitCode}`, async () => {
    const { child, said } = slowToEnd();
    expect(await said()).toBe("ready\n");
    child.kill(first);
    expect(await said()).toBe(`${first}\n`);
    child.kill(second);
    expect(await child.exited).toBe(exitCode);
    expect(await said()).toBe("");
  });
