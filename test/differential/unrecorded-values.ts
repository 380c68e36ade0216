// Which values of a live kubelet make the recording stale, because none of its recorded runs has shown them.
import { type Finding, type KnownDifference, matches } from "./compare.ts";

/**
 * Fields that no busy machine changes: how a container ends, whether it is ready, why it waits, which conditions a pod has,
 * and the order of its times.
 */
const neverNoise =
  /\b(exitCode|restartCount|phase|containerID|signal|terminated\.reason|waiting\.reason)$|\]\.(ready|started)$|\bconditions\[.*\]\.status$|^\w+ times$/;

/**
 * Among the differences of a live kubelet, as `berth`, from all recorded runs: those in a field in which the recorded runs
 * agree, or which no busy machine changes, unless an entry names the values of both.
 */
export function findUnrecorded(
  differences: readonly Finding[],
  entries: readonly KnownDifference[],
): readonly Finding[] {
  return differences.filter((each) => {
    const mayVary = new Set(each.kubelet).size > 1 && !neverNoise.test(each.field);
    const isExcused = mayVary || isKubeletsOwn(entries, each);
    return !isExcused;
  });
}

/**
 * Whether an entry names the value in which a live run of the kubelet, as `berth`, differs from the recorded ones, and
 * those, too. On a busy machine a kubelet may show what Berth always shows.
 */
function isKubeletsOwn(entries: readonly KnownDifference[], { pod, field, kubelet, berth }: Finding): boolean {
  return entries.some(
    (entry) =>
      matches(entry.pod, pod) &&
      matches(entry.field, field) &&
      kubelet.every((side) => matches(entry.kubelet, side)) &&
      (matches(entry.kubelet, berth) || matches(entry.berth, berth)),
  );
}
