import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { findLeakedResources, listMachineResources } from "../../bed/cleanup/leaked-resources.ts";
import { allCases } from "../../differential/cases/all.ts";
import { compareRuns, type Finding, fieldsOf, findStaleEntries, formatFindings } from "../../differential/compare.ts";
import { emptyViewParts, missedSnapshots, type Rows } from "../../differential/comparison-rows.ts";
import { knownDifferences } from "../../differential/known-differences.ts";
import { watchPods } from "../../differential/pod-watch.ts";
import { runCase } from "../../differential/run-case.ts";
import { type DifferentialBed, startDifferentialBed } from "../../differential/three-node-bed.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";

/** The first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
/** The number of cases that run on a node at once: enough for the slow ones to wait in parallel. */
const AT_ONCE = 16;
/** The fraction of fields that may be noise. Busy machines have shown less than half of it. */
const NOISE = 0.02;

setDefaultTimeout(60_000);

const skip = skipWithoutPrograms("what differs from the reference kubelet");
const selectedCases = process.env["BERTH_PODS"]?.split(",");
const cases = allCases.filter(({ name }) => selectedCases === undefined || selectedCases.includes(name));

describe.skipIf(skip !== undefined)("beside the reference kubelet", () => {
  let before: readonly string[] = [];
  let bed: DifferentialBed;
  const findings: Finding[] = [];
  let fields = 0;
  const seen = new Map<string, readonly [Rows, Rows, Rows]>();
  beforeAll(async () => {
    before = await listMachineResources();
    bed = await startDifferentialBed(console.log);
    const [a, b, c] = await Promise.all(bed.sides.map((_, index) => runAll(bed, index)));
    for (const { name } of cases) seen.set(name, [a!.get(name)!(), b!.get(name)!(), c!.get(name)!()]);
  }, BUILD_MS);
  afterAll(async () => {
    await bed?.end();
    const others = findings.filter(({ kind }) => kind !== "difference");
    console.log(formatFindings(others));
    expect(await findLeakedResources(before)).toEqual([]);
  }, 120_000);

  test.each(cases.map((podCase) => [podCase.name, podCase] as const))("%s", (name, podCase) => {
    const [a, b, berth] = seen.get(name)!;
    const runs = { pod: name, kubelet: [a, b], berth } as const;
    const found = compareRuns(runs, knownDifferences);
    findings.push(...found);
    fields += fieldsOf(runs).size;
    for (const kubelet of [a, b])
      expect({ missed: missedSnapshots(kubelet), unseen: emptyViewParts(podCase.viewParts ?? [], kubelet) }).toEqual({
        missed: [],
        unseen: [],
      });
    expect(formatFindings(found.filter(({ kind }) => kind === "difference"))).toBe("");
  });

  test.skipIf(selectedCases !== undefined)("every known difference still exists", () => {
    expect(findStaleEntries(knownDifferences.deliberate, findings)).toEqual([]);
  });

  test.skipIf(selectedCases !== undefined)("two runs of the kubelet differ in less than 2 % of the fields", () => {
    const noise = findings.filter(({ kind }) => kind === "noise").length;
    console.log(`${noise} of ${fields} fields are noise`);
    expect(noise / fields).toBeLessThan(NOISE);
  });
});

/** Runs every case on one side, `AT_ONCE` at a time. */
async function runAll(bed: DifferentialBed, index: number): Promise<ReadonlyMap<string, () => Rows>> {
  const side = bed.sides[index]!;
  const stopping = new AbortController();
  const stage = { bed, side, watched: await watchPods(bed.kube, side, stopping.signal) };
  const rows = new Map<string, () => Rows>();
  const waiting = [...cases];
  const queue = async () => {
    for (let podCase = waiting.shift(); podCase !== undefined; podCase = waiting.shift())
      rows.set(podCase.name, await runCase(stage, podCase));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, queue));
  stopping.abort();
  return rows;
}
