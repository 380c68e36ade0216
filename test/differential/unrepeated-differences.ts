// Which differences of one run of Berth are noise, because further runs of the case do not show them.
import { type Finding, type KnownDifference, matchesEntry } from "./compare.ts";
import { EVENT_ORDER } from "./comparison-rows.ts";

/** Why a difference is noise that no further run shows. */
const unrepeated = "no further run showed it";

/**
 * Whether a difference that no further run shows is noise: it is a count or an order in which the kubelet's own runs differ
 * by as much, or an entry of `inOneRun` names the field and the values of both sides. Any other difference is a fault even
 * if it comes once: a text that no run of the kubelet has, and an event that all of them have and Berth lacks.
 */
export function mayComeOnce(found: Finding, inOneRun: readonly KnownDifference[]): boolean {
  if (found.kind !== "difference") return false;
  const isOwn = found.field === EVENT_ORDER ? isOwnOrder(found) : isWithinOwnDistance(found);
  return isOwn || inOneRun.some((entry) => matchesEntry(entry, found));
}

/** Whether Berth's count of an event is as near to one of the kubelet's as these are to each other. */
function isWithinOwnDistance({ kubelet, berth }: Finding): boolean {
  const shown = kubelet.map(countOf).filter((count) => count !== undefined);
  const own = countOf(berth);
  if (berth === undefined || own === undefined || shown.length < kubelet.length) return false;
  const nearest = Math.min(...shown.map((count) => Math.abs(count - own)));
  return nearest <= Math.max(...shown) - Math.min(...shown);
}

/** Whether each pair of Berth's events is in the same order in some run of the kubelet, or together in none. */
function isOwnOrder({ kubelet, berth = "" }: Finding): boolean {
  const orders = kubelet.map((order = "") => order.split("\n"));
  const hasInOrder = (earlier: string, later: string) =>
    orders.some((order) => order.includes(later) && order.slice(0, order.indexOf(later)).includes(earlier));
  const lines = berth.split("\n");
  return lines.every((later, index) =>
    lines.slice(0, index).every((earlier) => hasInOrder(earlier, later) || !hasInOrder(later, earlier)),
  );
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
