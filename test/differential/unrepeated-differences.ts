// Which differences of one run of Berth are noise, because further runs of the case do not show them.
import { type Finding, type KnownDifference, matchesEntry } from "./compare.ts";

/**
 * Fields whose wrong value is a fault even if it comes once: no busy machine changes how a container ends, or which
 * conditions a pod has.
 */
export const neverNoise =
  /\b(exitCode|restartCount|phase|containerID|signal|terminated\.reason)$|\bconditions\[.*\]\.status$/;

/** Why a difference is noise that no further run shows. */
const unrepeated = "no further run showed it";

/**
 * Whether a difference that no further run shows is noise: the kubelet's own runs differ in the field, or an entry of
 * `inOneRun` names the field and the values of both sides. Any other difference is a fault even if it comes once.
 */
export function mayComeOnce(found: Finding, inOneRun: readonly KnownDifference[]): boolean {
  if (found.kind !== "difference") return false;
  const differsFromItself = new Set(found.kubelet).size > 1;
  return (differsFromItself && !neverNoise.test(found.field)) || inOneRun.some((entry) => matchesEntry(entry, found));
}

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
