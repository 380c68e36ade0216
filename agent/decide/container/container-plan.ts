import type { SandboxId } from "../../../proto/ids.ts";
import { allContainers, isInitContainer, isRunToCompletion } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { failureKeyOf } from "../pod/action.ts";
import { gracePeriodOf } from "../pod/desired.ts";
import { postStartFailureOf } from "../pod/memory.ts";
import {
  awaitsPostStart,
  type ExitedContainer,
  healthOf,
  mayBeRunning,
  newestInstanceOf,
  type ObservedContainer,
  type ObservedPod,
  type ObservedSandbox,
} from "../pod/observed.ts";
import type { PlanBuilder } from "../pod/plan.ts";
import { isWaitingForEnvironment, isWaitingForPullSecrets } from "../pod/prerequisites.ts";
import { podIPsOf } from "../status/pod-ips.ts";
import type { PreviousStatus } from "../status/previous-status.ts";
import { planStop } from "../termination/stop.ts";
import { isOutdated } from "./container-hash.ts";
import { imageNeed, imageOf } from "./image.ts";
import { type ImagesInput, type NextStart, planImagePulls, planImages } from "./image-plan.ts";
import { startableContainers, startableEphemeralContainers } from "./initialization.ts";
import { isInferredExit } from "./missing-containers.ts";
import { isReplaced } from "./replaced.ts";
import { crashesAfter, exitShownUntil, restartAt, shouldRestart } from "./restart.ts";
import { isRestartingAll, planRestartAll } from "./restart-all.ts";

export interface ContainersInput extends ImagesInput {
  readonly previousStatus: PreviousStatus;
  readonly sandbox: ObservedSandbox;
  /** False while a prerequisite of every container is missing; its arrival wakes the pod. */
  readonly mayCreate: boolean;
}

/**
 * Plans the containers of a pod with a usable sandbox. Images are pulled ahead, all at once. Starts go one by one in
 * the order of the spec; a container that cannot start now does not hold up those behind it, unless it is an init
 * container. Ephemeral containers wait for no other container: users add them to find out why the others do not start.
 */
export function planContainers(plan: PlanBuilder, input: ContainersInput): void {
  const { pod, observed, sandbox } = input;
  if (isRestartingAll(pod, observed)) {
    planRestartAll(plan, input);
    return;
  }
  let nextStart: NextStart = "allowed";
  for (const container of startableContainers(pod, observed, sandbox.id)) {
    if (planContainer(plan, input, container, nextStart) === "blocked") nextStart = "blocked";
  }
  for (const container of startableEphemeralContainers(pod, observed)) planContainer(plan, input, container, "allowed");
  planImagePulls(plan, input);
  removeUnneeded(plan, input);
  removeEmptySandboxes(plan, input.observed, input.sandbox.id);
}

function planContainer(
  plan: PlanBuilder,
  input: ContainersInput,
  container: Container,
  nextStart: NextStart,
): NextStart {
  const { pod, previousStatus, sandbox, observed, memory, settings, now } = input;
  const newest = newestInstanceOf(observed, container.name);
  // Decide the next step only after the stop, including its preStop hook, has ended.
  if (newest !== undefined && memory.stopping.has(newest.id)) return "blocked";
  if (newest === undefined) return planStart(plan, input, container, undefined, nextStart);
  const isInCurrentSandbox = newest.sandboxId === sandbox.id;
  const runsOnce = isRunToCompletion(pod, container);
  // A run-to-completion container is not restarted when its spec changes.
  const isChanged = !runsOnce && isOutdated(container, newest);
  switch (newest.state) {
    case "running": {
      const failed = healthOf(observed, newest)?.failedProbe;
      if (isInCurrentSandbox && !isChanged && failed !== undefined)
        return stopUnhealthyContainer(plan, input, container, newest, failed);
      if (isInCurrentSandbox && !isChanged) return planPostStart(plan, input, container, newest);
      if (!isChanged) return stopContainer(plan, input, newest, "its sandbox is gone");
      if (failed === undefined && awaitsNewImage(plan, input, container)) return "allowed";
      const why = `container ${container.name} definition changed`;
      return stopContainer(plan, input, newest, why, killMessage(pod, container, "definition changed", true));
    }
    case "unknown":
      return stopContainer(plan, input, newest, "its state is unknown", unknownStateMessage(pod, container));
    case "created":
      if (!isInCurrentSandbox || isChanged || newest.isLost) return removeUnstarted(plan, newest);
      if (nextStart === "blocked") return "blocked";
      return plan.propose({ kind: "startContainer", name: container.name, id: newest.id, attempt: newest.attempt })
        ? "blocked"
        : "allowed";
    case "exited": {
      const isStopped = isReplaced(pod, previousStatus, container, newest);
      // A new sandbox runs the init containers again.
      const mustRun = isStopped || (runsOnce && !isInCurrentSandbox);
      if (!mustRun && !shouldRestart(pod, container, newest)) return "allowed";
      const due = isChanged || isStopped ? now : restartAt(newest, settings.maxContainerRestartPeriodMs, now);
      if (due <= now)
        return planStart(plan, input, container, newest, nextStart, crashesOfNext(newest, isChanged, isStopped));
      plan.waitUntil(due);
      const exitShown = exitShownUntil(newest, due);
      if (postStartFailureOf(memory, newest.id) !== undefined && now < exitShown) plan.waitUntil(exitShown);
      return "allowed";
    }
  }
}

/** Plans the removal of a container that was never started. The next instance is created when it is gone. */
function removeUnstarted(plan: PlanBuilder, { name, id }: ObservedContainer): NextStart {
  return plan.propose({ kind: "removeContainer", name, id, why: "it was never started" }) ? "blocked" : "allowed";
}

/**
 * Plans the pull of a running container's new image. Returns whether the stop waits for it, so that the container is
 * missing no longer than its successor takes to start; a pull that fails is waited for no longer.
 */
function awaitsNewImage(
  plan: PlanBuilder,
  { pod, observed, memory, settings, now }: ContainersInput,
  container: Container,
): boolean {
  const image = imageOf(container);
  if (memory.failures.get({ of: "image", image })?.isOutage === false) return false;
  const need = imageNeed(container, observed, memory);
  switch (need.kind) {
    case "uninspected":
      plan.waitUntil(now);
      return true;
    case "access pending":
    case "pulling":
      return true;
    case "pull":
      if (!isWaitingForPullSecrets(pod, settings)) plan.propose({ kind: "pullImage", image, why: need.why });
      return true;
    case "missing":
      return isWaitingForPullSecrets(pod, settings);
    case "ready":
    case "invalid":
    case "uninspectable":
      return false;
  }
}

/** The kubelet's message for a stop, which differs for init containers and sidecars. */
function killMessage(pod: Pod, { name }: Container, what: string, isRestarted: boolean): string {
  if (isInitContainer(pod, name)) return `Init container ${name} ${what}`;
  return `Container ${name} ${what}${isRestarted ? ", will be restarted" : ""}`;
}

function unknownStateMessage(pod: Pod, { name }: Container): string {
  const what = isInitContainer(pod, name) ? "Init container" : "Container";
  return `${what} is in "unknown" state, try killing it before restart`;
}

/**
 * Later containers wait until this one's `postStart` hook has succeeded; a container whose hook has failed is stopped.
 */
function planPostStart(
  plan: PlanBuilder,
  input: ContainersInput,
  { name }: Container,
  instance: ObservedContainer,
): NextStart {
  const { observed, memory } = input;
  const { id, attempt } = instance;
  if (!awaitsPostStart(observed, instance)) return "allowed";
  if (memory.runningPostStartHooks.has(id)) return "blocked";
  const action = { kind: "runPostStart", name, id, attempt } as const;
  if (!memory.failures.has(failureKeyOf(action))) return plan.propose(action) ? "blocked" : "allowed";
  return stopContainer(plan, input, instance, "its postStart hook has failed", "FailedPostStartHook");
}

/** Plans a stop. It blocks the starts behind it: what follows is decided after the exit has been observed. */
function stopContainer(
  plan: PlanBuilder,
  { pod, memory }: StopInput,
  container: ObservedContainer,
  why: string,
  eventMessage?: string,
): NextStart {
  const { preStopDone } = memory;
  return planStop(plan, container, { pod, gracePeriodSeconds: gracePeriodOf(pod), preStopDone, why, eventMessage })
    ? "blocked"
    : "allowed";
}

type StopInput = Pick<ContainersInput, "pod" | "memory">;

/** Plans the stop of a container whose probe has failed. The message is the kubelet's, for the log and the event. */
function stopUnhealthyContainer(
  plan: PlanBuilder,
  { pod, memory }: StopInput,
  container: Container,
  instance: ObservedContainer,
  failed: "startup" | "liveness",
): NextStart {
  const { livenessProbe, startupProbe } = container;
  const probe = failed === "liveness" ? livenessProbe : startupProbe;
  const gracePeriodSeconds = probe?.terminationGracePeriodSeconds ?? gracePeriodOf(pod);
  // Only the policy counts: the exit code is not known yet, so no restart rule can match.
  const isRestarted = (container.restartPolicy ?? pod.spec.restartPolicy) !== "Never";
  const why = killMessage(pod, container, `failed ${failed} probe`, isRestarted);
  const { preStopDone } = memory;
  const stop = { pod, gracePeriodSeconds, preStopDone, why, eventMessage: why };
  return planStop(plan, instance, stop) ? "blocked" : "allowed";
}

function planStart(
  plan: PlanBuilder,
  input: ContainersInput,
  container: Container,
  previous: ExitedContainer | undefined,
  nextStart: NextStart,
  crashes = 0,
): NextStart {
  const { pod, sandbox, observed, settings, mayCreate } = input;
  const images = planImages(plan, input, container);
  if (typeof images === "string") return images;
  if (nextStart === "blocked") return "blocked";
  if (!mayCreate) return "allowed";
  // The read is about to finish: the containers behind this one must not overtake it.
  if (isWaitingForEnvironment(pod, container, settings)) return "blocked";
  return plan.propose({
    kind: "createContainer",
    name: container.name,
    attempt: nextAttempt(observed, container, previous),
    sandboxId: sandbox.id,
    podIPs: podIPsOf(sandbox.ips, settings.hostIPs),
    ...images,
    crashes,
    why: whyCreate(observed, container, previous),
  })
    ? "blocked"
    : "allowed";
}

/**
 * The crashes in a row that count for the next instance. Another image has a back-off of its own, which starts like that
 * of a first crash; a stop for a resize is no crash.
 */
function crashesOfNext(previous: ExitedContainer, isChanged: boolean, isStopped: boolean): number {
  if (isChanged) return 1;
  return isStopped ? previous.crashes : crashesAfter(previous);
}

/** Never an attempt that already has a log file: that file must not be appended to. */
function nextAttempt(
  { loggedAttempts, removedAttempts }: ObservedPod,
  { name }: Container,
  previous: ExitedContainer | undefined,
): number {
  return Math.max(previous?.attempt ?? -1, loggedAttempts.get(name) ?? -1, removedAttempts.get(name) ?? -1) + 1;
}

function whyCreate(
  { removedAttempts }: ObservedPod,
  { name }: Container,
  previous: ExitedContainer | undefined,
): string {
  if (previous !== undefined) return `it exited with code ${previous.exitCode}`;
  return removedAttempts.has(name) ? "all containers are restarted" : "it has not run yet";
}

/**
 * Removes what the pod no longer needs: containers that the spec does not name, and all dead instances but the newest
 * of each container. The newest is kept for its logs and exit code and reported as the last state, even if its start
 * failed.
 */
function removeUnneeded(plan: PlanBuilder, input: ContainersInput): void {
  const { pod, observed, memory } = input;
  const specNames = new Set(allContainers(pod.spec).map(({ name }) => name));
  const hasDead = new Set<string>();
  const newest = new Set<string>();
  for (const container of observed.containers) {
    const isNewest = !newest.has(container.name);
    newest.add(container.name);
    if (isInferredExit(container) || memory.stopping.has(container.id)) continue;
    if (!specNames.has(container.name)) removeInstance(plan, input, container, "the pod has no such container");
    else if (container.state === "exited") {
      if (hasDead.has(container.name)) removeOlderExit(plan, container);
      hasDead.add(container.name);
    } else if (!isNewest) removeInstance(plan, input, container, "a newer instance exists");
  }
}

/**
 * Removes sandboxes that were replaced, or whose creation was interrupted by the agent's death. A sandbox that holds
 * the last instance of a container stays as long as that instance.
 */
export function removeEmptySandboxes(
  plan: PlanBuilder,
  observed: ObservedPod,
  keptSandboxId: SandboxId | undefined,
): void {
  const occupied = new Set(observed.containers.map(({ sandboxId }) => sandboxId));
  for (const { id, ready } of observed.sandboxes)
    if (id !== keptSandboxId && !ready && !occupied.has(id))
      plan.propose({ kind: "removeSandbox", id, why: "a newer one has taken its place" });
}

function removeOlderExit(plan: PlanBuilder, exit: ExitedContainer): void {
  const { name, id } = exit;
  plan.propose({ kind: "removeContainer", name, id, why: "a newer instance has ended too", exit });
}

function removeInstance(plan: PlanBuilder, input: StopInput, container: ObservedContainer, why: string): void {
  if (mayBeRunning(container)) stopContainer(plan, input, container, why);
  else plan.propose({ kind: "removeContainer", name: container.name, id: container.id, why });
}
