import { expect, test } from "bun:test";
import { requiresAll } from "../skip-policy.ts";

/** Set in the process that runs the tests, in a namespace of its own. */
const marker = "BERTH_NAMESPACE";

/**
 * Registers tests in a mount namespace of their own: in another process, since a mount namespace is entered before a
 * process starts its threads. Whatever the tests leave mounted there ends with that process. `file` is the test file that
 * calls this.
 */
export function inMountNamespace(file: string, what: string, register: () => void): void {
  inNamespace(["--mount", "--propagation", "private"], file, `${what}, in a mount namespace of its own`, register);
}

/**
 * The same for a network namespace: bridges, rules, routes and settings end with the last process in it. `lo` is down at first.
 * `prepare` runs before, in the machine's own namespace: it gets what the tests cannot download.
 */
export function inNetworkNamespace(
  file: string,
  what: string,
  register: () => void,
  prepare?: () => Promise<unknown>,
): void {
  inNamespace(["--net"], file, `${what}, in a network namespace of its own`, register, prepare);
}

/** The same for a network namespace and a mount namespace: what tests mount hides the files of other suites that run meanwhile. */
export function inNetworkAndMountNamespace(
  file: string,
  what: string,
  register: () => void,
  prepare?: () => Promise<unknown>,
): void {
  const flags = ["--net", "--mount", "--propagation", "private"];
  inNamespace(flags, file, `${what}, in a network namespace and a mount namespace of its own`, register, prepare);
}

function inNamespace(
  flags: readonly string[],
  file: string,
  name: string,
  register: () => void,
  prepare?: () => Promise<unknown>,
): void {
  if (process.env[marker] !== undefined) {
    register();
    return;
  }
  const isRoot = process.getuid?.() === 0;
  if (!isRoot) console.warn(`skipped: ${name}, which only root may make`);
  test.skipIf(!isRoot)(
    name,
    async () => {
      await prepare?.();
      const argv = ["unshare", ...flags, process.execPath, "test", "--timeout=600000", file];
      const run = Bun.spawn(argv, { env: { ...process.env, [marker]: "1" }, stdout: "pipe", stderr: "pipe" });
      const output = await Promise.all([run.stdout.text(), run.stderr.text()]);
      expect(await run.exited, output.join("")).toBe(0);
      expect(output.join("")).toMatch(/\b0 fail\b/);
      // The report of the suite does not show what that process has skipped.
      if (requiresAll(process.env)) expect(output.join("")).not.toMatch(/^ *[1-9]\d* skip$/m);
    },
    20 * 60_000,
  );
}
