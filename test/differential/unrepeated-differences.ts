// Which differences of one run of Berth are noise, because further runs of the case do not show them.
import { type Finding, type KnownDifference, matchesEntry } from "./compare.ts";

/**
 * Fields whose wrong value is a fault even if it comes once: no busy machine changes how a container ends, whether it is
 * ready, why it waits, which conditions a pod has, or the order of its times.
 */
export const neverNoise =
  /\b(exitCode|restartCount|phase|containerID|signal|terminated\.reason|waiting\.reason)$|\]\.(ready|started)$|\bconditions\[.*\]\.status$|^\w+ times$/;

/** Why a difference is noise that no further run shows. */
const unrepeated = "no further run showed it";

/**
 * Whether a difference that no further run shows is noise: the kubelet's own runs differ in the field, and by as much if
 * it is a count, or an entry of `inOneRun` names the field and the values of both sides. Any other difference is a fault
 * even if it comes once.
 */
export function mayComeOnce(found: Finding, inOneRun: readonly KnownDifference[]): boolean {
  if (found.kind !== "difference") return false;
  const differsFromItself = new Set(found.kubelet).size > 1 && isWithinOwnDistance(found);
  return (differsFromItself && !neverNoise.test(found.field)) || inOneRun.some((entry) => matchesEntry(entry, found));
}

/** Whether Berth's count of an event is as near to one of the kubelet's as these are to each other; true for any text. */
function isWithinOwnDistance({ kubelet, berth }: Finding): boolean {
  const counts = kubelet.map(countOf);
  const own = countOf(berth);
  if (own === undefined || counts.some((count) => count === undefined)) return true;
  const shown = counts.filter((count) => count !== undefined);
  const nearest = Math.min(...shown.map((count) => Math.abs(count - own)));
  return nearest <= Math.max(...shown) - Math.min(...shown);
}

/** The count of an event, which is 0 for one that is absent; undefined for another text. */
const countOf = (value: string | undefined) =>
  /^×\d+$/.test(value ?? "×0") ? Number((value ?? "×0").slice(1)) : undefined;

/**
 * Reclassifies the differences of a pod that may come once and that none of the comparisons with further runs shows.
 * Without further runs there is no noise. Adds what a further run shows and must not come once.
 */
export function withoutUnrepeated(
  found: readonly Finding[],
  furtherRuns: readonly (readonly Finding[])[],
  inOneRun: readonly KnownDifference[],
): readonly Finding[] {
  const further = furtherRuns.flat().filter(({ kind }) => kind === "difference");
  const repeated = new Set(further.map(({ field }) => field));
  const own = found.map(
    (each): Finding =>
      furtherRuns.length > 0 && mayComeOnce(each, inOneRun) && !repeated.has(each.field)
        ? { ...each, kind: "noise", reason: unrepeated }
        : each,
  );
  return [...own, ...further.filter((each) => !mayComeOnce(each, inOneRun))];
}

/** The differences that no further run showed. */
export function unrepeatedFindings(findings: readonly Finding[]): readonly Finding[] {
  return findings.filter(({ reason }) => reason === unrepeated);
}
