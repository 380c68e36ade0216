import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { findLeakedResources, listMachineResources } from "../../bed/cleanup/leaked-resources.ts";
import { allCases } from "../../differential/cases/all.ts";
import type { PodCase } from "../../differential/cases/pod-case.ts";
import {
  compareRuns,
  type Finding,
  fieldsOf,
  findStalePods,
  formatFindings,
  joinRows,
  joinRuns,
  type KubeletRows,
} from "../../differential/compare.ts";
import { emptyViewParts, missedSnapshots, type Rows } from "../../differential/comparison-rows.ts";
import { type DifferentialBed, startDifferentialBed } from "../../differential/differential-bed.ts";
import { knownDifferences } from "../../differential/known-differences.ts";
import { currentIndex, type KubeletRecording, readIndex, readRecording } from "../../differential/kubelet-recording.ts";
import { chooseKubelet, otherPackages } from "../../differential/recording-index.ts";
import { runOnAllSides } from "../../differential/run-cases.ts";
import { findUnrecorded } from "../../differential/unrecorded-values.ts";
import { mayComeOnce, unrepeatedFindings, withoutUnrepeated } from "../../differential/unrepeated-differences.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";

/** So often a case runs again in which Berth shows what it may show once: each of these runs has to be without it. */
const FURTHER_RUNS = 2;

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("what differs from the reference kubelet");
const selectedCases = process.env["BERTH_PODS"]?.split(",");
const cases = allCases.filter(({ name }) => selectedCases === undefined || selectedCases.includes(name));
const isLiveRun = process.env["BERTH_LIVE_KUBELETS"] === "1";
const recordedIndex = await readIndex();
const index = skip === undefined ? await currentIndex() : recordedIndex;
/** Two kubelets run beside Berth, or it runs alone and is compared with the recorded kubelet. */
const { isLive, differences: otherHere } = chooseKubelet(recordedIndex, index, isLiveRun);
if (otherHere.length > 0)
  console.warn(
    `recording: Berth is compared with ${isLive ? "live kubelets, since" : "the recorded kubelet, although"} ${otherHere.join(", ")}`,
  );
const agents = isLive ? (["kubelet", "kubelet", "berth"] as const) : (["berth"] as const);

/** The first run outside of `npm test` builds the programs. Live, three agents share the cores. */
const RUN_MS = (isLive ? 90 : 20) * 60_000;

describe.skipIf(skip !== undefined)(`beside the ${isLive ? "live" : "recorded"} reference kubelet`, () => {
  let before: readonly string[] = [];
  let bed: DifferentialBed;
  const findings: Finding[] = [];
  let recording: KubeletRecording;
  let seen: SeenRuns;
  const furtherRuns: SeenRuns[] = [];
  beforeAll(async () => {
    before = await listMachineResources();
    recording = await readRecording(cases);
    bed = await startDifferentialBed(agents, console.log);
    seen = await runCases(bed, cases);
    const { inOneRun } = knownDifferences;
    const again = cases.filter((each) => compare(each, recording, seen).some((found) => mayComeOnce(found, inOneRun)));
    if (again.length > 0) console.log(`run again: ${again.map(({ name }) => name).join(", ")}`);
    for (let run = 1; run <= FURTHER_RUNS; run++) furtherRuns.push(await runCases(bed, again));
  }, RUN_MS);
  afterAll(async () => {
    await bed?.end();
    console.log(`differences that no further run showed:\n${formatFindings(unrepeatedFindings(findings))}`);
    console.log(formatFindings(findings.filter(({ kind, reason }) => kind === "noise" && reason === undefined)));
    for (const [reason, count] of knownReasons(findings)) console.log(`${count} × ${reason}`);
    expect(await findLeakedResources(before)).toEqual([]);
  }, 600_000);

  test.each(cases.map((podCase) => [podCase.name, podCase] as const))("%s", (name, podCase) => {
    const further = furtherRuns.filter((runs) => runs.has(name)).map((runs) => compare(podCase, recording, runs));
    const found = withoutUnrepeated(compare(podCase, recording, seen), further, knownDifferences.inOneRun);
    findings.push(...found);
    for (const kubelet of seen.get(name)?.kubelets ?? [])
      expect({ missed: missedSnapshots(kubelet), unseen: emptyViewParts(podCase.viewParts ?? [], kubelet) }).toEqual({
        missed: [],
        unseen: [],
      });
    expect(formatFindings(differences(found))).toBe("");
  });

  if (selectedCases !== undefined) return;

  test("every pod still shows the known differences that name it", () => {
    const pods = cases.map(({ name }) => name);
    expect(findStalePods(knownDifferences.deliberate, findings, pods)).toEqual([]);
  });

  if (isLiveRun)
    test("the recording was made with these packages", () => {
      const stale = otherPackages(recordedIndex, index);
      expect(stale, "stale, record the kubelet by npm run differential -- record").toEqual([]);
    });

  if (!isLive) return;

  test("the recording has what a live kubelet shows", () => {
    const live = cases.flatMap(({ name }) =>
      seen.get(name)!.kubelets.map((berth) => ({ pod: name, kubelet: recording.get(name)!, berth })),
    );
    const fields = live.reduce((total, runs) => total + fieldsOf(runs).size, 0);
    const unrecorded = live.flatMap((runs) => differences(compareRuns(runs, { deliberate: [], timingDependent: [] })));
    console.log(`${unrecorded.length} of ${fields} fields of the live kubelets differ from all recorded runs`);
    console.log(formatFindings(unrecorded, "live kubelet"));
    const stale = findUnrecorded(unrecorded, Object.values(knownDifferences).flat());
    const names = [...new Set(stale.map(({ pod }) => pod))];
    const howToRecord = `BERTH_PODS=${names.join(",")} npm run differential -- record`;
    expect(names, `stale, record it by ${howToRecord}\n${formatFindings(stale, "live kubelet")}`).toEqual([]);
  });
});

/** The rows of the live kubelets, if any, and of Berth, by case name. */
type SeenRuns = ReadonlyMap<string, { readonly kubelets: readonly Rows[]; readonly berth: Rows }>;

async function runCases(bed: DifferentialBed, selected: readonly PodCase[]): Promise<SeenRuns> {
  const sides = await runOnAllSides(bed, selected);
  return new Map(
    selected.map(({ name }) => {
      const rows = sides.map((side) => side.get(name)!);
      return [name, { kubelets: rows.slice(0, -1), berth: rows.at(-1)! }];
    }),
  );
}

/** Compares Berth's run of a case with all recorded and live runs of the kubelet. */
function compare({ name }: PodCase, recording: KubeletRecording, seen: SeenRuns): readonly Finding[] {
  const { kubelets, berth } = seen.get(name)!;
  const recorded: KubeletRows = recording.get(name)!;
  const kubelet = kubelets.length === 0 ? recorded : joinRows([recorded, joinRuns(kubelets)]);
  return compareRuns({ pod: name, kubelet, berth }, knownDifferences);
}

const differences = (found: readonly Finding[]) => found.filter(({ kind }) => kind === "difference");

/** The number of fields that differ for each known reason. */
function knownReasons(findings: readonly Finding[]): ReadonlyMap<string, number> {
  const byReason = Map.groupBy(
    findings.filter(({ reason }) => reason !== undefined),
    ({ kind, reason }) => `${kind}: ${reason}`,
  );
  return new Map([...byReason].map(([reason, all]) => [reason, all.length]));
}
