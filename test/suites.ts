import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Suite } from "./suite.ts";

const minuteMs = 60_000;
const program = (name: string) => join("node_modules", ".bin", name);
const step = (name: string, ...argv: readonly string[]): Suite => ({
  name,
  argv,
  hasReport: false,
  timeoutMs: 5 * minuteMs,
});

/** Test files that need a container runtime, root, or minutes: everything else is part of the quick check. */
const needsMachine = /^test\/(contract|e2e|bench|vm)\//;
const isFuzz = /(^test\/fuzz\/|\.fuzz\.test\.ts$)/;
const sourceFolders = "{proto,host,cri,kube,cni,cgroups,agent,controlplane,cli,test}";

/** All test files of the tree, sorted. */
export function findTests(root: string): readonly string[] {
  return [...new Bun.Glob(`${sourceFolders}/**/*.test.ts`).scanSync(root)].toSorted();
}

export const quickTests = (files: readonly string[]) => files.filter((file) => !needsMachine.test(file));
export const fuzzTests = (files: readonly string[]) => files.filter((file) => isFuzz.test(file));
export const testsIn = (files: readonly string[], folder: string) => files.filter((file) => file.startsWith(folder));

/** A `bun test` over `files`, one file after the other. */
export function testSuite(name: string, files: readonly string[], env: Readonly<Record<string, string>> = {}): Suite {
  const paths = files.map((file) => `./${file}`);
  const unavailable = files.length === 0 ? "there is no such test yet" : undefined;
  const argv = [process.execPath, "test", "--only-failures", ...paths];
  return { name, argv, hasReport: true, env, timeoutMs: 30 * minuteMs, unavailable };
}

/** What needs only the npm packages. The order is that of the lines printed, not of the runs. */
export function staticSuites(): readonly Suite[] {
  const rooms = ["agent/decide", "agent/translate"].filter((room) => existsSync(join(room, "tsconfig.json")));
  return [
    step("types", program("tsc"), "--noEmit", "-p", "."),
    ...rooms.map((room) => step(`types of ${room}`, program("tsc"), "--noEmit", "-p", room)),
    step("format and lint", program("biome"), "ci", "--colors=off", "--error-on-warnings"),
    step("unused code", program("knip")),
  ];
}
