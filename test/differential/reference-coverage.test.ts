import { expect, test } from "bun:test";
import { allCases } from "./cases/all.ts";
import { readCgroupRecording } from "./cgroups/cgroup-recording.ts";
import { readRecording } from "./kubelet-recording.ts";
import { linesOfCgroups, linesOfRows, showsObservable } from "./recorded-observables.ts";
import { COVERED_ROWS, referenceCoverage } from "./reference-coverage.ts";
import { notObservable, type ReferenceRow } from "./reference-rows/reference-row.ts";

const names = allCases.map(({ name }) => name);
const [rows, ...cgroups] = await Promise.all([
  readRecording(allCases),
  readCgroupRecording("cgroupfs"),
  readCgroupRecording("systemd"),
]);
/** The pods without any feature: what they show, too, is not the observable of a feature. */
const plainPods = ["runs", "succeeds"];

/** What the recordings of the kubelet show of a pod. */
const linesOf = (pod: string) => [...linesOfRows(rows.get(pod) ?? new Map()), ...linesOfCgroups(cgroups, pod)];

/** What a row of the list lacks: pods that are not recorded, and observables that their recording does not have. */
function faultsOf([row, what, shown]: ReferenceRow): readonly string[] {
  if (typeof shown === "string") return /^[A-Z].*\.$/.test(shown) ? [] : [`${row} ${what}: ${shown} is no sentence`];
  const pods = Object.entries(shown);
  const faults = pods.flatMap(([pod, observables]) => {
    const lines = linesOf(pod);
    if (lines.length === 0) return [`${pod} is not recorded`];
    const all = observables === notObservable ? [] : [observables].flat();
    const missing = all.filter((each) => !showsObservable(lines, each)).map((each) => `${pod} does not show ${each}`);
    const isPlain = plainPods.some(
      (plain) => plain !== pod && all.every((each) => showsObservable(linesOf(plain), each)),
    );
    return all.length > 0 && isPlain && !plainPods.includes(pod) ? [`a plain pod shows what ${pod} shows`] : missing;
  });
  const isShown = pods.some(([, observables]) => observables !== notObservable);
  return [...faults, ...(isShown ? [] : ["no pod shows it"])].map((fault) => `${row} ${what}: ${fault}`);
}

test("each pod has a unique name", () => {
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});

test("covers each row of the reference once, in order", () => {
  const all = COVERED_ROWS.flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, index) => first + index),
  );
  expect(referenceCoverage.map(([row]) => row)).toEqual(all);
});

test("each row has a pod whose recording shows it, or says in a sentence why no pod can", () => {
  expect(referenceCoverage.flatMap(faultsOf)).toEqual([]);
});
