import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { findLeakedResources, listMachineResources } from "../../bed/cleanup/leaked-resources.ts";
import { allCases } from "../../differential/cases/all.ts";
import type { PodCase } from "../../differential/cases/pod-case.ts";
import {
  compareRuns,
  type Finding,
  fieldsOf,
  findStaleEntries,
  formatFindings,
  withoutUnrepeated,
} from "../../differential/compare.ts";
import { emptyViewParts, missedSnapshots, type Rows } from "../../differential/comparison-rows.ts";
import { type DifferentialBed, type Side, startDifferentialBed } from "../../differential/differential-bed.ts";
import { knownDifferences } from "../../differential/known-differences.ts";
import { watchPods } from "../../differential/pod-watch.ts";
import { runCase } from "../../differential/run-case.ts";
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
  let seen: ReadonlyMap<string, ObservedRows>;
  let seenAgain: ReadonlyMap<string, ObservedRows>;
  beforeAll(async () => {
    before = await listMachineResources();
    bed = await startDifferentialBed(console.log);
    seen = await runOnAllSides(bed, cases);
    const differing = cases.filter((podCase) => differences(comparisonOf(podCase, seen)).length > 0);
    if (differing.length > 0)
      console.log(`run again, since they differ: ${differing.map(({ name }) => name).join(", ")}`);
    seenAgain = await runOnAllSides(bed, differing);
  }, BUILD_MS);
  afterAll(async () => {
    await bed?.end();
    const others = findings.filter(({ kind }) => kind !== "difference");
    console.log(formatFindings(others));
    expect(await findLeakedResources(before)).toEqual([]);
  }, 120_000);

  test.each(cases.map((podCase) => [podCase.name, podCase] as const))("%s", (name, podCase) => {
    const again = seenAgain.has(name) ? comparisonOf(podCase, seenAgain) : undefined;
    const found = withoutUnrepeated(comparisonOf(podCase, seen), again);
    const [a, b, berth] = seen.get(name)!;
    findings.push(...found);
    fields += fieldsOf({ pod: name, kubelet: [a, b], berth }).size;
    for (const kubelet of [a, b])
      expect({ missed: missedSnapshots(kubelet), unseen: emptyViewParts(podCase.viewParts ?? [], kubelet) }).toEqual({
        missed: [],
        unseen: [],
      });
    expect(formatFindings(differences(found))).toBe("");
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

/** The rows of two kubelets and of Berth. */
type ObservedRows = readonly [Rows, Rows, Rows];

const differences = (found: readonly Finding[]) => found.filter(({ kind }) => kind === "difference");

function comparisonOf({ name }: PodCase, seen: ReadonlyMap<string, ObservedRows>): readonly Finding[] {
  const [a, b, berth] = seen.get(name)!;
  return compareRuns({ pod: name, kubelet: [a, b], berth }, knownDifferences);
}

/** Runs the cases on all sides at the same time. Removes the events of an earlier run first. */
async function runOnAllSides(
  bed: DifferentialBed,
  selected: readonly PodCase[],
): Promise<ReadonlyMap<string, ObservedRows>> {
  if (selected.length === 0) return new Map();
  for (const { namespace } of bed.sides)
    await bed.plane.kubectl(["delete", "events", "--all", `--namespace=${namespace}`]);
  const [a, b, c] = await Promise.all(bed.sides.map((side) => runAll(bed, side, selected)));
  return new Map(selected.map(({ name }) => [name, [a!.get(name)!(), b!.get(name)!(), c!.get(name)!()]]));
}

/** Runs the cases on one side, `AT_ONCE` at a time. */
async function runAll(
  bed: DifferentialBed,
  side: Side,
  selected: readonly PodCase[],
): Promise<ReadonlyMap<string, () => Rows>> {
  const stopping = new AbortController();
  const run = { bed, side, watched: await watchPods(bed.kube, side, stopping.signal) };
  const rows = new Map<string, () => Rows>();
  const waiting = [...selected];
  const queue = async () => {
    for (let podCase = waiting.shift(); podCase !== undefined; podCase = waiting.shift())
      rows.set(podCase.name, await runCase(run, podCase));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, queue));
  stopping.abort();
  return rows;
}
