import { lastingContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { dueAfter } from "../pod/backoff.ts";
import type { PodMemory } from "../pod/memory.ts";
import { mayRun, newestOf, type ObservedContainer, type ObservedPod } from "../pod/observed.ts";
import type { PlanInProgress } from "../pod/plan.ts";
import { proposeStop } from "../pod/stop.ts";
import { isConcluded } from "./missing-containers.ts";
import { restartsAll } from "./restart.ts";

/*
 * `RestartAllContainers`: a container has ended, and the first of its own rules that fits its exit code asks for a new beginning of the pod
 * in its place, in the same sandbox and on the same volumes.
 *
 *   stop all that run, with two seconds ──► remove them ──► remove those that have asked for it ──► the first init container
 *
 * Those that have asked go last: as long as one of them is there, an agent that comes later goes on with it. What was removed leaves a mark
 * on the disk, so that it counts as begun anew, and not as lost.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-all-containers
 */

/** A round lasts so long at least, as with the kubelet, which looks once a second: no back-off is kept of what was removed. */
const SHORTEST_ROUND_MS = 1_000;

/** Whether a container of the pod has a rule that may restart all of them. */
export function mayRestartAll(spec: PodSpec): boolean {
  return lastingContainers(spec).some(({ restartPolicyRules = [] }) =>
    restartPolicyRules.some(({ action }) => action === "RestartAllContainers"),
  );
}

/** Whether a container has ended in a way that asks for the restart of all, and is still there to say so. */
export function isRestartingAll({ spec }: Pod, observed: ObservedPod): boolean {
  return mayRestartAll(spec) && lastingContainers(spec).some((container) => asks(container, observed));
}

/**
 * Since when a restart of all is asked for; epoch milliseconds. What has ended since then was ended for it, and tells nothing of how the pod
 * ends: an agent that comes later finds it so.
 */
export function restartAskedAt({ spec }: Pod, observed: ObservedPod): number | undefined {
  const ends = lastingContainers(spec).flatMap((container) => {
    const newest = newestOf(observed, container.name);
    return newest?.state === "exited" && asks(container, observed) ? [newest.finishedAt] : [];
  });
  return ends.length === 0 ? undefined : Math.min(...ends);
}

/** Brings a pod that is to begin anew to where nothing of its containers is left. Ephemeral ones are no part of it. */
export function planRestartOfAll(
  plan: PlanInProgress,
  { pod, observed, memory, now }: { pod: Pod; observed: ObservedPod; memory: PodMemory; now: number },
): void {
  const all = lastingContainers(pod.spec);
  const asking = all.filter((container) => asks(container, observed)).map(({ name }) => newestOf(observed, name));
  const begun = Math.max(...asking.map((each) => each?.createdAt ?? 0));
  const due = dueAfter(begun, SHORTEST_ROUND_MS, now);
  if (due > now) {
    plan.waitUntil(due);
    return;
  }
  const names = new Set(all.map(({ name }) => name));
  const why = `container ${asking[0]?.name} asks for a restart of all`;
  const instances = observed.containers.filter((each) => names.has(each.name) && !isConcluded(each));
  const running = instances.filter(mayRun);
  for (const each of running) proposeStop(plan, each, { pod, gracePeriodSeconds: 0, why, event: "killing" });
  if (running.length > 0 || memory.stopping.size > 0) return;
  const targets = instances.filter((each) => !asking.includes(each));
  for (const each of targets.length > 0 ? targets : instances) plan.propose(removal(each, why));
}

function removal({ name, id }: ObservedContainer, why: string) {
  return { kind: "removeContainer", name, id, why, isCleared: true } as const;
}

function asks(container: Container, observed: ObservedPod): boolean {
  const newest = newestOf(observed, container.name);
  return newest?.state === "exited" && !isConcluded(newest) && restartsAll(container, newest.exitCode);
}
