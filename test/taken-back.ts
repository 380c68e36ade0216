import type { Pod, PodPhase } from "../proto/kubernetes/gen/types.ts";

const order: readonly (PodPhase | undefined)[] = [undefined, "Pending", "Running", "Succeeded", "Failed"];

/**
 * One sentence for each thing that a pod's status takes back of what the one before it had said. A start that was cut short counts as
 * one: then a container begins anew, with a higher restart count.
 */
export function takenBack(
  { metadata, status: before = {} }: Pod,
  { metadata: now, status: after = {} }: Pod,
): readonly string[] {
  const [was, is] = [before.containerStatuses?.[0], after.containerStatuses?.[0]];
  const hasEnded = is?.state?.terminated !== undefined;
  const isSame = was?.restartCount === is?.restartCount;
  const broken = {
    phase: order.indexOf(after.phase) < order.indexOf(before.phase),
    "start time": before.startTime !== undefined && before.startTime !== after.startTime,
    "restart count": (is?.restartCount ?? 0) < (was?.restartCount ?? 0),
    "container id": isSame && was?.containerID !== undefined && is?.containerID !== was.containerID,
    "being running": isSame && was?.state?.running !== undefined && is?.state?.waiting !== undefined,
    end: isSame && was?.state?.terminated !== undefined && is?.state?.terminated === undefined,
    readiness: was?.ready === true && is?.ready !== true && !hasEnded && now.deletionTimestamp === undefined,
  };
  const told = `${JSON.stringify(was)} → ${JSON.stringify(is)}`;
  return Object.entries(broken)
    .filter(([, isBroken]) => isBroken)
    .map(([what]) => `${metadata.name}: ${what} taken back, from ${before.phase} to ${after.phase}: ${told}`);
}
