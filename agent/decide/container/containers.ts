import type { SandboxId } from "../../../proto/ids.ts";
import { allContainers, isInitContainer, runsToItsEnd } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { subjectOf } from "../pod/action.ts";
import { gracePeriodOf } from "../pod/desired.ts";
import { hookFailureOf, type PodMemory } from "../pod/memory.ts";
import {
  awaitsHook,
  type ExitedContainer,
  healthOf,
  mayRun,
  newestOf,
  type ObservedContainer,
  type ObservedPod,
  type ObservedSandbox,
} from "../pod/observed.ts";
import type { PlanInProgress } from "../pod/plan.ts";
import { awaitsEnvironment, awaitsPullSecrets } from "../pod/prerequisites.ts";
import { proposeStop } from "../pod/stop.ts";
import type { Settings } from "../settings.ts";
import { podIPsOf } from "../status/pod-ips.ts";
import { isOutdated } from "./container-hash.ts";
import { imageNeed, imageOf } from "./image.ts";
import { containersInTurn, ephemeralInTurn } from "./initialization.ts";
import { isConcluded } from "./missing-containers.ts";
import { crashesAfter, endNewsUntil, restartAt, shouldRestart } from "./restart.ts";
import { isRestartingAll, planRestartOfAll } from "./restart-all.ts";

export interface ContainerScene {
  readonly pod: Pod;
  readonly sandbox: ObservedSandbox;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly settings: Settings;
  readonly now: number;
  /** False while something is awaited without which no container can be created; whoever brings it wakes the pod. */
  readonly mayCreate: boolean;
}

const ASK_AGAIN_MS = 60_000;

/** Whether the containers behind one may be started: one start at a time, in the order of the spec. */
type Turn = "free" | "taken";

/**
 * Brings the containers of a pod with a good sandbox to where they should be. Images are fetched ahead, all at once; starts
 * go one by one in the order of the spec, and a container that cannot start now does not hold up those behind it, unless it is
 * an init container. Ephemeral containers wait for none of them: they are there to see why those do not start.
 */
export function planContainers(plan: PlanInProgress, scene: ContainerScene): void {
  const { pod, observed, sandbox } = scene;
  if (isRestartingAll(pod, observed)) {
    planRestartOfAll(plan, scene);
    return;
  }
  let turn: Turn = "free";
  for (const container of containersInTurn(pod, observed, sandbox.id)) {
    const taken = planContainer(plan, scene, container, turn);
    if (taken === "taken") turn = "taken";
  }
  for (const container of ephemeralInTurn(pod, observed)) planContainer(plan, scene, container, "free");
  planFirstPulls(plan, scene);
  removeStrangers(plan, scene);
  removeEmptySandboxes(plan, scene.observed, scene.sandbox.id);
}

/** Images of containers that have never run need no sandbox to be fetched into. */
export function planFirstPulls(
  plan: PlanInProgress,
  { pod, observed, memory, settings }: Pick<ContainerScene, "pod" | "observed" | "memory" | "settings">,
): void {
  if (awaitsPullSecrets(pod, settings)) return;
  for (const container of allContainers(pod.spec)) {
    if (newestOf(observed, container.name) !== undefined) continue;
    const need = imageNeed(container, observed, memory);
    if (need.kind === "pull") plan.propose({ kind: "pullImage", image: imageOf(container), why: need.why });
  }
}

function planContainer(plan: PlanInProgress, scene: ContainerScene, container: Container, turn: Turn): Turn {
  const { pod, sandbox, observed, memory, settings, now } = scene;
  const newest = newestOf(observed, container.name);
  // What comes after a stop is decided when it has ended, its hook too.
  if (newest !== undefined && memory.stopping.has(newest.id)) return "taken";
  if (newest === undefined) return planStart(plan, scene, container, undefined, turn);
  const isHere = newest.sandboxId === sandbox.id;
  const runsOnce = runsToItsEnd(pod, container);
  // What runs to its end is let come to it.
  const isChanged = !runsOnce && isOutdated(container, newest);
  switch (newest.state) {
    case "running": {
      const failed = healthOf(observed, newest)?.failed;
      if (isHere && !isChanged && failed !== undefined) return stopUnhealthy(plan, pod, container, newest, failed);
      if (isHere && !isChanged) return planHook(plan, scene, container, newest);
      if (!isChanged) return stop(plan, pod, newest, "its sandbox is gone");
      const why = `container ${container.name} definition changed`;
      return stop(plan, pod, newest, why, wordOf(pod, container, "definition changed", true));
    }
    case "unknown":
      return stop(plan, pod, newest, "its state is unknown", unknownWord(pod, container));
    case "created":
      if (!isHere || isChanged)
        return plan.propose({
          kind: "removeContainer",
          name: container.name,
          id: newest.id,
          why: "it was never started",
        })
          ? "taken"
          : "free";
      if (turn === "taken") return "taken";
      return plan.propose({ kind: "startContainer", name: container.name, id: newest.id, attempt: newest.attempt })
        ? "taken"
        : "free";
    case "exited": {
      // A new sandbox is initialized anew.
      if (!isChanged && !(runsOnce && !isHere) && !shouldRestart(pod, container, newest)) return "free";
      const due = isChanged ? now : restartAt(newest, settings.maxContainerRestartPeriodMs, now);
      if (due <= now) return planStart(plan, scene, container, newest, turn, isChanged);
      plan.waitUntil(due);
      const newsUntil = endNewsUntil(newest, due);
      if (hookFailureOf(memory, newest.id) !== undefined && now < newsUntil) plan.waitUntil(newsUntil);
      return "free";
    }
  }
}

/** What users are told of a stop, in the kubelet's words, which tell of sidecars in others. */
function wordOf(pod: Pod, { name }: Container, what: string, isRestarted: boolean): string {
  if (isInitContainer(pod, name)) return `Init container ${name} ${what}`;
  return `Container ${name} ${what}${isRestarted ? ", will be restarted" : ""}`;
}

function unknownWord(pod: Pod, { name }: Container): string {
  const what = isInitContainer(pod, name) ? "Init container" : "Container";
  return `${what} is in "unknown" state, try killing it before restart`;
}

/** Nothing behind a container begins before its `postStart` hook has succeeded; one whose hook has failed is stopped. */
function planHook(plan: PlanInProgress, scene: ContainerScene, { name }: Container, instance: ObservedContainer): Turn {
  const { pod, observed, memory } = scene;
  const { id, attempt } = instance;
  if (!awaitsHook(observed, instance)) return "free";
  if (memory.hooks.has(id)) return "taken";
  const action = { kind: "runHook", name, id, attempt } as const;
  if (!memory.failures.has(subjectOf(action))) return plan.propose(action) ? "taken" : "free";
  return stop(plan, pod, instance, "its postStart hook has failed", "FailedPostStartHook");
}

/** A stop takes the turn: what comes after it is decided when it has been seen to end. */
function stop(plan: PlanInProgress, pod: Pod, container: ObservedContainer, why: string, event?: string): Turn {
  return proposeStop(plan, container, { pod, gracePeriodSeconds: gracePeriodOf(pod), why, event }) ? "taken" : "free";
}

/** The words are the kubelet's, for the log and for the event. */
function stopUnhealthy(
  plan: PlanInProgress,
  pod: Pod,
  container: Container,
  instance: ObservedContainer,
  failed: "startup" | "liveness",
): Turn {
  const { livenessProbe, startupProbe } = container;
  const probe = failed === "liveness" ? livenessProbe : startupProbe;
  const gracePeriodSeconds = probe?.terminationGracePeriodSeconds ?? gracePeriodOf(pod);
  // By policy alone: with what code it is going to end nobody knows yet, so that no rule is asked.
  const isRestarted = (container.restartPolicy ?? pod.spec.restartPolicy) !== "Never";
  const why = wordOf(pod, container, `failed ${failed} probe`, isRestarted);
  return proposeStop(plan, instance, { pod, gracePeriodSeconds, why, event: why }) ? "taken" : "free";
}

function planStart(
  plan: PlanInProgress,
  scene: ContainerScene,
  container: Container,
  previous: ExitedContainer | undefined,
  turn: Turn,
  isChanged = false,
): Turn {
  const { pod, sandbox, observed, memory, settings, now, mayCreate } = scene;
  const need = imageNeed(container, observed, memory);
  switch (need.kind) {
    case "invalid":
      return "free";
    case "missing":
      // Whether the image is for this pod may follow from them.
      if (awaitsPullSecrets(pod, settings)) return "taken";
      plan.waitUntil(now + ASK_AGAIN_MS);
      return "free";
    case "uninspectable":
      // Nobody tells when an image arrives: it is asked for again as often as the kubelet syncs a pod.
      plan.waitUntil(now + ASK_AGAIN_MS);
      return "free";
    case "unasked":
      plan.waitUntil(now);
      return "taken";
    case "pulling":
      return "taken";
    case "pull":
      if (awaitsPullSecrets(pod, settings)) return "taken";
      return plan.propose({ kind: "pullImage", image: imageOf(container), why: need.why }) ? "taken" : "free";
    case "ready":
      if (turn === "taken") return "taken";
      if (!mayCreate) return "free";
      // A moment, in which those behind it are not to overtake it.
      if (awaitsEnvironment(pod, container, settings)) return "taken";
      return plan.propose({
        kind: "createContainer",
        name: container.name,
        attempt: nextAttempt(observed, container, previous),
        sandboxId: sandbox.id,
        podIPs: podIPsOf(sandbox.ips, settings.hostIPs),
        image: imageOf(container),
        imageRef: need.ref,
        // Another image has another back-off: it begins like that of a first crash.
        crashes: previous === undefined ? 0 : isChanged ? 1 : crashesAfter(previous),
        why: whyCreate(observed, container, previous),
      })
        ? "taken"
        : "free";
  }
}

/** A log that is there is never written into again. */
function nextAttempt(
  { loggedAttempts, clearedAttempts }: ObservedPod,
  { name }: Container,
  previous: ExitedContainer | undefined,
): number {
  return Math.max(previous?.attempt ?? -1, loggedAttempts.get(name) ?? -1, clearedAttempts.get(name) ?? -1) + 1;
}

function whyCreate(
  { clearedAttempts }: ObservedPod,
  { name }: Container,
  previous: ExitedContainer | undefined,
): string {
  if (previous !== undefined) return `it exited with code ${previous.exitCode}`;
  return clearedAttempts.has(name) ? "all containers are restarted" : "it has not run yet";
}

/**
 * What the pod no longer needs: containers that the spec does not name, and dead instances but the newest of each container, which is
 * kept for its logs and its exit code, and told as the last state: also one whose start failed.
 */
function removeStrangers(plan: PlanInProgress, { pod, observed, memory }: ContainerScene): void {
  const named = new Set(allContainers(pod.spec).map(({ name }) => name));
  const hasDead = new Set<string>();
  const newest = new Set<string>();
  for (const container of observed.containers) {
    const isNewest = !newest.has(container.name);
    newest.add(container.name);
    if (isConcluded(container) || memory.stopping.has(container.id)) continue;
    if (!named.has(container.name)) end(plan, pod, container, "the pod has no such container");
    else if (container.state === "exited") {
      if (hasDead.has(container.name)) end(plan, pod, container, "a newer instance has ended too");
      hasDead.add(container.name);
    } else if (!isNewest) end(plan, pod, container, "a newer instance exists");
  }
}

/**
 * Sandboxes that were replaced, or whose making was cut short together with the agent. One that still holds the last instance of a
 * container stays as long as that instance.
 */
export function removeEmptySandboxes(plan: PlanInProgress, observed: ObservedPod, kept: SandboxId | undefined): void {
  const occupied = new Set(observed.containers.map(({ sandboxId }) => sandboxId));
  for (const { id, ready } of observed.sandboxes)
    if (id !== kept && !ready && !occupied.has(id))
      plan.propose({ kind: "removeSandbox", id, why: "a newer one has taken its place" });
}

function end(plan: PlanInProgress, pod: Pod, container: ObservedContainer, why: string): void {
  if (mayRun(container)) stop(plan, pod, container, why);
  else plan.propose({ kind: "removeContainer", name: container.name, id: container.id, why });
}
