import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { allExtendedSuites } from "./extended-suites.ts";
import { findTests } from "./suites.ts";
import { hasPassed, rowsIn } from "./test-summary.ts";

test("every extended suite that runs tests has a report, so that its skips are seen", async () => {
  const suites = allExtendedSuites(await findTests("."));
  const unreported = suites.filter(({ hasReport }) => !hasReport).map(({ name }) => name);
  expect(unreported).toEqual([
    "vm",
    "vm node",
    "vm node with containerd 2.1",
    "vm node with cgroupfs",
    "planted faults",
  ]);
});

test("what npm test does with fewer pods, the extended run does with a hundred", async () => {
  const suites = allExtendedSuites(await findTests("."));
  for (const [name, path] of [
    ["outages", "cluster/outages"],
    ["workloads", "cluster/workloads"],
    ["faults", "cluster/faults"],
    ["network-deaths", "network-deaths"],
  ])
    expect(suites.find((suite) => suite.name === `${name} with 100 pods`)).toMatchObject({
      argv: expect.arrayContaining([`./test/e2e/${path}.test.ts`]),
      env: { BERTH_MANY_PODS: "100" },
    });
});

test("the deaths with both sources have more time than a suite of npm test", async () => {
  const deaths = allExtendedSuites(await findTests(".")).find(({ name }) => name === "deaths with both sources");
  expect(deaths).toMatchObject({ env: { DIE_BOTH: "1" }, timeoutMs: 3 * 60 * 60_000 });
});

test("the last run of each extended suite has passed", async () => {
  const document = await readFile(join(import.meta.dirname, "..", "docs", "extended-tests.md"), "utf8");
  const rows = new Map(rowsIn(document).map((row) => [row.suite, row]));
  const names = allExtendedSuites(await findTests(".")).map(({ name }) => name);
  expect([...rows.keys()].filter((name) => !names.includes(name))).toEqual([]);
  expect(names.filter((name) => !hasPassed(rows.get(name)))).toEqual([]);
});
