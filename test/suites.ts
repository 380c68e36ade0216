import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
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

/** Test files that need root and a container runtime, Go, or minutes: everything else is part of the quick check. */
const needsMachine = /^test\/(e2e|vm)\/|^test\/contract\/(?!.*-fake\.test\.ts$)/;
/** Those of the pages are many, and tell little that a unit test or a scenario does not: they are for `npm test` alone. */
const ofPages = /^test\/pages\//;
/** Each takes some hundredth of a second, beside whatever else the machine has to do. */
const LONGEST_OF_PAGES_MS = 30_000;
const folders = "{proto,host,cri,kube,cni,cgroups,agent,controlplane,cli,test}";

/** What makes a test one that runs the upstream programs: it asks whether they can be had here. */
const asksForPrograms = "skipWithoutPrograms(";

/**
 * A file of tests; `isFuzz` if the environment variable FUZZ_RUNS says how many random inputs it tries, `needsUpstream` if
 * the upstream programs must have been built before.
 */
export interface TestFile {
  readonly path: string;
  readonly isQuick: boolean;
  readonly isFuzz: boolean;
  readonly needsUpstream: boolean;
}

/** All test files below `root`, sorted by path. */
export async function findTests(root: string): Promise<readonly TestFile[]> {
  const paths = [...new Bun.Glob(`${folders}/**/*.test.ts`).scanSync(root)].toSorted();
  return await Promise.all(
    paths.map(async (path) => {
      const text = await readFile(join(root, path), "utf8");
      const isQuick = !needsMachine.test(path) && !ofPages.test(path);
      const needsUpstream = !isQuick && text.includes(asksForPrograms);
      return { path, isQuick, isFuzz: text.includes('env["FUZZ_RUNS"]'), needsUpstream };
    }),
  );
}

/** The tests of what Kubernetes' pages say. */
export function pagesSuite(files: readonly TestFile[]): Suite {
  const ofThem = files.filter(({ path }) => ofPages.test(path));
  return testSuite("pages of Kubernetes' documentation", ofThem, {}, LONGEST_OF_PAGES_MS);
}

/** A `bun test` over `files`, one file after the other. `env` is added to the environment. */
export function testSuite(
  name: string,
  files: readonly TestFile[],
  env: Readonly<Record<string, string>> = {},
  timeoutMs = 5000,
): Suite {
  const paths = files.map(({ path }) => `./${path}`);
  const unavailable = files.length === 0 ? "there is no such test yet" : undefined;
  const argv = [process.execPath, "test", "--only-failures", `--timeout=${timeoutMs}`, ...paths];
  return { name, argv, hasReport: true, env, timeoutMs: 30 * minuteMs, unavailable };
}

/**
 * What needs only the npm packages. The order is that of the lines printed, not of the runs. Types and unused code remember
 * below `node_modules/.cache` what they found in files that have not changed since.
 */
export function staticSuites(): readonly Suite[] {
  const rooms = ["agent/decide", "agent/translate"].filter((room) => existsSync(join(room, "tsconfig.json")));
  const memory = ["--incremental", "--tsBuildInfoFile", join("node_modules", ".cache", "berth", "types.tsbuildinfo")];
  return [
    // Each further checker would compare the large types of the libraries once more.
    step("types", program("tsc"), "--noEmit", "-p", ".", "--checkers", "1", ...memory),
    ...rooms.map((room) => step(`types of ${room}`, program("tsc"), "--noEmit", "-p", room)),
    step("format and lint", program("biome"), "ci", "--colors=off", "--error-on-warnings"),
    // Its own entry for bun, which starts it in half the time that node needs.
    step("unused code", process.execPath, program("knip-bun"), "--cache"),
  ];
}
