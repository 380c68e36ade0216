import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { newTraces, traces } from "../../bed/cleanup/leaked-resources.ts";
import { plays as allPlays } from "../../differential/cases/all.ts";
import { compare, type Finding, fieldsOf, stale, tell } from "../../differential/compare.ts";
import { missed, type Rows, unseen } from "../../differential/comparison-rows.ts";
import { lists } from "../../differential/known-differences.ts";
import { watch } from "../../differential/pod-watch.ts";
import { live } from "../../differential/run-case.ts";
import { type Bed, startBed } from "../../differential/three-node-bed.ts";
import { skipWithoutPrograms } from "../../upstream/programs.ts";

/** A first run outside of `npm test` builds the programs. */
const BUILD_MS = 20 * 60_000;
/** How many pods a node has under way at once: enough that the slow ones wait beside each other. */
const AT_ONCE = 16;
/** What of all fields may be noise. Busy machines have shown less than a half of it. */
const NOISE = 0.02;

setDefaultTimeout(60_000);

const skip = skipWithoutPrograms("what differs from the reference kubelet");
const wanted = process.env["BERTH_PODS"]?.split(",");
const plays = allPlays.filter(({ name }) => wanted === undefined || wanted.includes(name));

describe.skipIf(skip !== undefined)("beside the reference kubelet", () => {
  let before: readonly string[] = [];
  let bed: Bed;
  const findings: Finding[] = [];
  let fields = 0;
  const seen = new Map<string, readonly [Rows, Rows, Rows]>();
  beforeAll(async () => {
    before = await traces();
    bed = await startBed(console.log);
    const [a, b, c] = await Promise.all(bed.sides.map((_, index) => runAll(bed, index)));
    for (const { name } of plays) seen.set(name, [a!.get(name)!(), b!.get(name)!(), c!.get(name)!()]);
  }, BUILD_MS);
  afterAll(async () => {
    await bed?.end();
    const others = findings.filter(({ kind }) => kind !== "difference");
    console.log(tell(others));
    expect(await newTraces(before)).toEqual([]);
  }, 120_000);

  test.each(plays.map((play) => [play.name, play] as const))("%s", (name, play) => {
    const [a, b, berth] = seen.get(name)!;
    const runs = { pod: name, kubelet: [a, b], berth } as const;
    const found = compare(runs, lists);
    findings.push(...found);
    fields += fieldsOf(runs).size;
    for (const kubelet of [a, b])
      expect({ missed: missed(kubelet), unseen: unseen(play.seen ?? [], kubelet) }).toEqual({ missed: [], unseen: [] });
    expect(tell(found.filter(({ kind }) => kind === "difference"))).toBe("");
  });

  test.skipIf(wanted !== undefined)("every deliberate difference is still one", () => {
    expect(stale(lists.deliberate, findings)).toEqual([]);
  });

  test.skipIf(wanted !== undefined)("the kubelet differs little from itself", () => {
    const noise = findings.filter(({ kind }) => kind === "noise").length;
    console.log(`${noise} of ${fields} fields are noise`);
    expect(noise / fields).toBeLessThan(NOISE);
  });
});

/** Runs every pod on one side, some at a time and the one that empties its node last. */
async function runAll(bed: Bed, index: number): Promise<ReadonlyMap<string, () => Rows>> {
  const side = bed.sides[index]!;
  const stopping = new AbortController();
  const stage = { bed, side, watched: await watch(bed.kube, side, stopping.signal) };
  const rows = new Map<string, () => Rows>();
  const waiting = [...plays];
  const lane = async () => {
    for (let play = waiting.shift(); play !== undefined; play = waiting.shift())
      rows.set(play.name, await live(stage, play));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, lane));
  stopping.abort();
  return rows;
}
