import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { dueAfter } from "../pod/backoff.ts";
import type { PodMemory } from "../pod/memory.ts";
import { mayBeRunning, newestInstanceOf, type ObservedContainer, type ObservedPod } from "../pod/observed.ts";
import type { PlanBuilder } from "../pod/plan.ts";
import { planStop } from "../termination/stop.ts";
import { isInferredExit } from "./missing-containers.ts";
import { restartsAllContainers } from "./restart.ts";

/*
 * `RestartAllContainers`: a container has exited, and the first of its own rules that matches the exit code requests a
 * restart of the pod in place: in the same sandbox and on the same volumes.
 *
 *   stop all running (2 s of grace) ──► remove them ──► remove the requesting containers ──► the first init container
 *
 * The requesting containers are removed last: while one of them exists, a later agent continues the restart. Each
 * removed container leaves a marker file, so that it counts as removed for the restart and not as missing.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-all-containers
 */

/** The minimum duration of a round, as with the kubelet's sync once a second: removed containers carry no back-off. */
const MIN_ROUND_MS = 1_000;

/** Whether a container of the pod has a rule that restarts all of them. */
export function mayRestartAll(spec: PodSpec): boolean {
  return nonEphemeralContainers(spec).some(({ restartPolicyRules = [] }) =>
    restartPolicyRules.some(({ action }) => action === "RestartAllContainers"),
  );
}

/** Whether an exited container that requests the restart of all containers still exists. */
export function isRestartingAll({ spec }: Pod, observed: ObservedPod): boolean {
  return (
    mayRestartAll(spec) && nonEphemeralContainers(spec).some((container) => requestsRestartAll(container, observed))
  );
}

/**
 * Since when a restart of all containers is requested; epoch milliseconds. Containers that exited after that were
 * stopped for it, so their exits do not count for the pod's outcome, also after a restart of the agent.
 */
export function restartAllRequestedAt({ spec }: Pod, observed: ObservedPod): number | undefined {
  const requestedAts = nonEphemeralContainers(spec).flatMap((container) => {
    const newest = newestInstanceOf(observed, container.name);
    return newest?.state === "exited" && requestsRestartAll(container, observed) ? [newest.finishedAt] : [];
  });
  return requestedAts.length === 0 ? undefined : Math.min(...requestedAts);
}

/** Stops and removes all containers of a pod that restarts in place, except for ephemeral ones. */
export function planRestartAll(
  plan: PlanBuilder,
  { pod, observed, memory, now }: { pod: Pod; observed: ObservedPod; memory: PodMemory; now: number },
): void {
  const all = nonEphemeralContainers(pod.spec);
  const requesting = all
    .filter((container) => requestsRestartAll(container, observed))
    .map(({ name }) => newestInstanceOf(observed, name));
  const newestCreatedAt = Math.max(...requesting.map((each) => each?.createdAt ?? 0));
  const due = dueAfter(newestCreatedAt, MIN_ROUND_MS, now);
  if (due > now) {
    plan.waitUntil(due);
    return;
  }
  const names = new Set(all.map(({ name }) => name));
  const why = `container ${requesting[0]?.name} asks for a restart of all`;
  const instances = observed.containers.filter((each) => names.has(each.name) && !isInferredExit(each));
  const running = instances.filter(mayBeRunning);
  for (const each of running) planStop(plan, each, { pod, gracePeriodSeconds: 0, why, eventMessage: "killing" });
  if (running.length > 0 || memory.stopping.size > 0) return;
  const targets = instances.filter((each) => !requesting.includes(each));
  for (const each of targets.length > 0 ? targets : instances) plan.propose(removeAction(each, why));
}

function removeAction({ name, id }: ObservedContainer, why: string) {
  return { kind: "removeContainer", name, id, why, isForRestartAll: true } as const;
}

function requestsRestartAll(container: Container, observed: ObservedPod): boolean {
  const newest = newestInstanceOf(observed, container.name);
  return newest?.state === "exited" && !isInferredExit(newest) && restartsAllContainers(container, newest.exitCode);
}
