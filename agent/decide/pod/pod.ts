import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { planContainers, planFirstPulls, removeEmptySandboxes } from "../container/containers.ts";
import { containersInTurn, ephemeralInTurn } from "../container/initialization.ts";
import { withLostContainers, withToldEnds } from "../container/missing-containers.ts";
import { withLateReasons } from "../container/oom-reason.ts";
import { hasItsLastSandbox, type SandboxNeed, sandboxNeed } from "../container/sandbox.ts";
import type { Settings } from "../settings.ts";
import { podStatus, unseenStatus } from "../status/status.ts";
import type { Action } from "./action.ts";
import { type DesiredNow, gracePeriodOf } from "./desired.ts";
import { ofThisRevision, openSandboxes, type PodMemory, withoutVanished } from "./memory.ts";
import { mayRun, type ObservedPod } from "./observed.ts";
import { deadlineOf, outcomeOf } from "./outcome.ts";
import { createPlan, type Obstacle, type PlanInProgress } from "./plan.ts";
import { awaitsNetwork, awaitsRuntimeClass, awaitsServices } from "./prerequisites.ts";
import { endingOf, isFinal, orphanEnding, type Stage, stageOf, stageOfEnding } from "./stage.ts";
import { proposeStops } from "./stop.ts";
import { planEnding } from "./termination.ts";

/** What to do now, what to say now, what to keep in mind, and when to look again if nothing happens before. */
export interface Decision {
  readonly stage: Stage;
  readonly actions: readonly Action[];
  readonly status: PodStatus;
  readonly memory: PodMemory;
  readonly lookAgainAt: number | undefined;
  readonly obstacle: Obstacle | undefined;
}

/** The whole policy for one pod that a source has asked for. Pure: the same arguments always give the same decision. */
export function decidePod(
  desired: DesiredNow,
  observed: ObservedPod,
  before: PodMemory,
  settings: Settings,
  now: number,
): Decision {
  const own = ofThisRevision(before, desired.revision);
  const whole = withLostContainers(desired.pod, withToldEnds(desired.pod, observed), own);
  const outcome = own.outcome ?? (isHeld(desired, observed) ? undefined : outcomeOf(desired, whole, settings, now));
  if (outcome === undefined && isAwaitingAdmission(desired)) return undecided(desired, own);
  const remembered = withoutVanished(own, observed);
  const replacedSince = replacedSinceOf(desired.pod, observed, remembered, now);
  const isKnown = outcome === own.outcome && replacedSince === own.replacedSince;
  const known: PodMemory = isKnown ? remembered : { ...remembered, outcome, replacedSince };
  const plan = createPlan(known, now);
  const stage = stageOf(endingOf(desired, outcome), observed, known);
  if (stage.kind === "syncing") planSync(plan, desired, whole, known, settings, now);
  else planEnding(plan, stage, observed, known, now);
  const { status, conditions } = podStatus({ desired, observed: whole, memory: known, settings, now, stage });
  const last = known.lastStatus ?? desired.lastStatus ?? (isFinal(stage) ? status : undefined);
  const lastStatus = last && withLateReasons(last, whole);
  return { stage, ...plan.result(), status: lastStatus ?? status, memory: { ...known, conditions, lastStatus } };
}

/** Nothing is begun, and nothing is told to the API server, before the node has answered; whoever answers wakes the pod. */
function isAwaitingAdmission({ admission, termination }: DesiredNow): boolean {
  return admission?.kind === "awaited" && termination === undefined;
}

function undecided(desired: DesiredNow, memory: PodMemory): Decision {
  const status = unseenStatus(desired, "whether this node takes the pod is not decided yet");
  return { stage: { kind: "syncing" }, actions: [], status, memory, lookAgainAt: undefined, obstacle: undefined };
}

/** A pod that nobody asks for: what is found of it is ended and removed. */
export function decideOrphan(observed: ObservedPod, before: PodMemory, now: number): Omit<Decision, "status"> {
  const orphanedAt = before.orphanedAt ?? now;
  const memory: PodMemory = { ...withoutVanished(before, observed), orphanedAt };
  const plan = createPlan(memory, now);
  const stage = stageOfEnding(orphanEnding(orphanedAt), observed, memory);
  planEnding(plan, stage, observed, memory, now);
  return { stage, ...plan.result(), memory };
}

/** An earlier pod of the same name has to end before this one may begin. */
function isHeld({ waitsFor }: DesiredNow, { sandboxes, containers }: ObservedPod): boolean {
  return waitsFor !== undefined && sandboxes.length === 0 && containers.length === 0;
}

function planSync(
  plan: PlanInProgress,
  desired: DesiredNow,
  observed: ObservedPod,
  memory: PodMemory,
  settings: Settings,
  now: number,
): void {
  if (isHeld(desired, observed)) return;
  const { pod } = desired;
  const deadline = deadlineOf(desired);
  if (deadline !== undefined) plan.waitUntil(deadline);
  const need = sandboxNeed(pod, observed, now);
  const areVolumesReady = memory.volumesPrepared || !isStartAhead(desired, observed);
  if (need.kind === "create") {
    const mayRunSandbox = (awaitsNetwork(desired, settings) ?? awaitsRuntimeClass(desired, settings)) === undefined;
    planSandbox(plan, { desired, observed, memory, now, mayRunSandbox }, need);
    planFirstPulls(plan, { pod, observed, memory, settings });
  } else if (!areVolumesReady) plan.propose({ kind: "prepareVolumes" });
  else {
    const mayCreate = awaitsServices(desired, settings) === undefined;
    planContainers(plan, { pod, sandbox: need.sandbox, observed, memory, settings, now, mayCreate });
  }
}

/** True while a container of the pod does not run, so that its volumes may be needed. */
function isStartAhead({ pod }: DesiredNow, observed: ObservedPod): boolean {
  const isUp = (name: string) => observed.containers.some((c) => c.name === name && c.state === "running");
  const inTurn = containersInTurn(pod, observed, observed.sandboxes[0]?.id);
  return inTurn.some(({ name }) => !isUp(name)) || ephemeralInTurn(pod, observed).length > 0;
}

/** Since when what runs in a sandbox that will not do is being stopped; undefined where nothing is. */
function replacedSinceOf(
  pod: Pod,
  observed: ObservedPod,
  { replacedSince }: PodMemory,
  now: number,
): number | undefined {
  if (!observed.containers.some(mayRun) || sandboxNeed(pod, observed, now).kind === "ready") return undefined;
  return replacedSince ?? now;
}

interface SandboxScene {
  readonly desired: DesiredNow;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly now: number;
  /** False while something is awaited without which it cannot be run; whoever brings it wakes the pod. */
  readonly mayRunSandbox: boolean;
}

const forNewSandbox = {
  why: "the pod's sandbox changed, it will be killed and re-created",
  isForSandbox: true,
} as const;

/** A new sandbox: first everything of the old ones is stopped, so that nothing of the pod ever runs twice. */
function planSandbox(
  plan: PlanInProgress,
  { desired, observed, memory, now, mayRunSandbox }: SandboxScene,
  { attempt, crashes, dueAt, why }: Extract<SandboxNeed, { kind: "create" }>,
): void {
  const { pod } = desired;
  const running = observed.containers.filter(mayRun);
  const { replacedSince: requestedAt = now, preStopped } = memory;
  const { why: reason, ...how } = hasItsLastSandbox(pod, observed)
    ? { why: `its sandbox will not do: ${why}` }
    : forNewSandbox;
  const grant = { requestedAt, gracePeriodSeconds: gracePeriodOf(pod), why: reason };
  proposeStops(plan, running, grant, { pod, preStopped, ...how }, now);
  if (running.length > 0 || memory.stopping.size > 0) return;
  const open = openSandboxes(observed, memory);
  for (const { id } of open) plan.propose({ kind: "stopSandbox", id, why });
  if (open.length > 0) return;
  // The newest stays until the next one is there: its number and its count go on from it.
  removeEmptySandboxes(plan, observed, observed.sandboxes[0]?.id);
  if (!memory.volumesPrepared) plan.propose({ kind: "prepareVolumes" });
  else if (dueAt > now) plan.waitUntil(dueAt);
  else if (mayRunSandbox) plan.propose({ kind: "runSandbox", attempt, crashes, why });
}
