import { expect, test } from "bun:test";
import { requiresAll } from "../skip-policy.ts";

/** Set in the process that runs the tests, in a mount namespace of its own. */
const marker = "BERTH_MOUNT_NAMESPACE";

/**
 * Registers tests in a mount namespace of their own: in another process, since a mount namespace is entered before a
 * process starts its threads. Whatever the tests leave mounted there ends with that process. `file` is the test file that
 * calls this.
 */
export function inMountNamespace(file: string, what: string, register: () => void): void {
  if (process.env[marker] !== undefined) {
    register();
    return;
  }
  const mayMount = process.getuid?.() === 0;
  if (!mayMount) console.warn(`skipped: ${what}, since only root may mount`);
  test.skipIf(!mayMount)(
    `${what}, in a mount namespace of its own`,
    async () => {
      const argv = ["unshare", "--mount", "--propagation", "private", process.execPath, "test", file];
      const run = Bun.spawn(argv, { env: { ...process.env, [marker]: "1" }, stdout: "pipe", stderr: "pipe" });
      const output = await Promise.all([run.stdout.text(), run.stderr.text()]);
      expect(await run.exited, output.join("")).toBe(0);
      expect(output.join("")).toMatch(/\b0 fail\b/);
      // The report of the suite does not show what that process has skipped.
      if (requiresAll(process.env)) expect(output.join("")).not.toMatch(/^ *[1-9]\d* skip$/m);
    },
    180_000,
  );
}
