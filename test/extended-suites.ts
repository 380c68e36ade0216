import { basename } from "node:path";
import type { Suite } from "./suite.ts";
import { extendedSuites, fuzzSuites, type TestFile, testSuite } from "./suites.ts";

const hourMs = 60 * 60_000;
const LONG_MS = 3 * hourMs;

/** A suite that is a program of its own. Its exit code counts. */
const program = (name: string, ...argv: readonly string[]): Suite => ({
  name,
  argv: [process.execPath, ...argv],
  hasReport: false,
  timeoutMs: LONG_MS,
});

/** A `bun test` on a real cluster. It has a report, without which a test that skips itself would count as passed. */
const onCluster = (name: string, suite: string, env: Readonly<Record<string, string>> = {}): Suite => ({
  ...program(name, "test/upstream/run.ts", suite),
  hasReport: true,
  env,
});

/** Everything that `npm run test:extended` runs, in order. */
export function allExtendedSuites(files: readonly TestFile[]): readonly Suite[] {
  const scenarios = files.filter(({ path }) => path.startsWith("test/scenarios/"));
  const memory = files.filter(({ path }) => path === "test/e2e/memory.test.ts");
  const streaming = files.filter(({ path }) => /^test\/contract\/streaming-containerd-.*\.test\.ts$/.test(path));
  const withMany = (file: string) => {
    const all = files.filter(({ path }) => path === `test/e2e/${file}.test.ts`);
    const name = basename(file);
    return { ...testSuite(`${name} with 100 pods`, all, { BERTH_MANY_PODS: "100" }), timeoutMs: LONG_MS };
  };
  return [
    ...extendedSuites(files),
    ...fuzzSuites(files, { inputs: 100_000 }).map((suite) => ({ ...suite, timeoutMs: hourMs })),
    { ...testSuite("deaths with both sources", scenarios, { DIE_BOTH: "1" }, 30_000), timeoutMs: LONG_MS },
    onCluster("live differential", "differential"),
    onCluster("chaos 200", "chaos", { BERTH_CHAOS: "200" }),
    { ...testSuite("streaming with 200 sessions", streaming, { BERTH_SESSIONS: "200" }, LONG_MS), timeoutMs: LONG_MS },
    withMany("cluster/outages"),
    withMany("cluster/workloads"),
    withMany("cluster/faults"),
    withMany("network-deaths"),
    { ...testSuite("memory after 2000 pods", memory, { BERTH_MEMORY_PODS: "2000" }), timeoutMs: LONG_MS },
    program("vm", "test/vm/run.ts"),
    program("vm node", "test/vm/run.ts", "node", "--pods", "100"),
    program("vm node with containerd 2.1", "test/vm/run.ts", "node", "--containerd", "2.1"),
    program("vm node with cgroupfs", "test/vm/run.ts", "node", "--driver", "cgroupfs"),
    program("planted faults", "test/mutation/run.ts", "100", "--write"),
  ];
}
