import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { Action } from "./action.ts";
import { awaitsNetwork, awaitsRuntimeClass, awaitsServices } from "./awaited.ts";
import { planContainers, planFirstPulls, removeEmptySandboxes } from "./containers.ts";
import { type DesiredNow, dueOf, gracePeriodOf } from "./desired.ts";
import { containersInTurn, ephemeralInTurn } from "./initialization.ts";
import { withLostContainers } from "./lost.ts";
import { ofThisRevision, openSandboxes, type PodMemory, withoutVanished } from "./memory.ts";
import { mayRun, type ObservedPod } from "./observed.ts";
import { deadlineOf, outcomeOf } from "./outcome.ts";
import { createPlan, type Obstacle, type PlanInProgress } from "./plan.ts";
import { type SandboxNeed, sandboxNeed } from "./sandbox.ts";
import type { Settings } from "./settings.ts";
import type { Stage } from "./stage.ts";
import { podStatus, unseenStatus } from "./status.ts";
import { proposeStop, stoppedInTurn } from "./stop.ts";
import { type Ending, planEnding } from "./termination.ts";

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
  const whole = withLostContainers(desired.pod, observed, own);
  const outcome = own.outcome ?? (isHeld(desired, observed) ? undefined : outcomeOf(desired, whole, settings, now));
  if (outcome === undefined && isAwaitingAdmission(desired)) return undecided(desired, own);
  const remembered = withoutVanished(own, observed);
  const known: PodMemory = outcome === own.outcome ? remembered : { ...remembered, outcome };
  const plan = createPlan(known, now);
  const ending = endingOf(desired, known);
  const stage =
    ending === undefined
      ? planSync(plan, desired, whole, known, settings, now)
      : stageOf(plan, ending, observed, known, now);
  const isFinal = ending !== undefined && !observed.containers.some(mayRun);
  const scene = { desired, observed: whole, memory: known, settings, now, isEnding: ending !== undefined, isFinal };
  const { status, conditions } = podStatus(scene);
  const lastStatus = known.lastStatus ?? desired.lastStatus ?? (isFinal ? status : undefined);
  return { stage, ...plan.result(), status: lastStatus ?? status, memory: { ...known, conditions, lastStatus } };
}

/** Nothing is begun, and nothing is told to the API server, before the node has answered; whoever answers wakes the pod. */
function isAwaitingAdmission({ admission, termination }: DesiredNow): boolean {
  return admission?.kind === "awaited" && termination === undefined;
}

function undecided(desired: DesiredNow, memory: PodMemory): Decision {
  const status = unseenStatus(desired, "whether this node takes the pod is not decided yet");
  return { stage: "syncing", actions: [], status, memory, lookAgainAt: undefined, obstacle: undefined };
}

/** A pod that nobody asks for: what is found of it is ended and removed, with the kubelet's grace of one second. */
export function decideOrphan(observed: ObservedPod, before: PodMemory, now: number): Omit<Decision, "status"> {
  const orphanedAt = before.orphanedAt ?? now;
  const memory: PodMemory = { ...withoutVanished(before, observed), orphanedAt };
  const ending: Ending = {
    requestedAt: orphanedAt,
    gracePeriodSeconds: 1,
    why: "no source asks for this pod",
    removesAll: true,
    pod: undefined,
  };
  const plan = createPlan(memory, now);
  const stage = stageOf(plan, ending, observed, memory, now);
  return { stage, ...plan.result(), memory };
}

/** An earlier pod of the same name has to end before this one may begin. */
function isHeld({ waitsFor }: DesiredNow, { sandboxes, containers }: ObservedPod): boolean {
  return waitsFor !== undefined && sandboxes.length === 0 && containers.length === 0;
}

/**
 * How the pod has to end, if it has to. It may end by itself and then be taken away too: it never gets more grace by that than
 * the earlier of both grants.
 */
function endingOf({ pod, termination }: DesiredNow, { outcome }: PodMemory): Ending | undefined {
  const byItself =
    outcome === undefined
      ? undefined
      : {
          requestedAt: outcome.at,
          gracePeriodSeconds: gracePeriodOf(pod),
          why: outcome.message ?? outcome.why ?? "all its containers are done",
        };
  if (termination === undefined) return byItself && { ...byItself, removesAll: false, pod };
  const isLater = byItself !== undefined && dueOf(byItself) < dueOf(termination);
  return { ...(isLater ? byItself : termination), why: termination.why, removesAll: true, pod };
}

function stageOf(plan: PlanInProgress, ending: Ending, observed: ObservedPod, memory: PodMemory, now: number): Stage {
  if (planEnding(plan, ending, observed, memory, now) === "terminating") return "terminating";
  return ending.removesAll ? "finished" : "terminated";
}

function planSync(
  plan: PlanInProgress,
  desired: DesiredNow,
  observed: ObservedPod,
  memory: PodMemory,
  settings: Settings,
  now: number,
): Stage {
  if (isHeld(desired, observed)) return "syncing";
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
  return "syncing";
}

/** True while a container of the pod does not run, so that its volumes may be needed. */
function isStartAhead({ pod }: DesiredNow, observed: ObservedPod): boolean {
  const isUp = (name: string) => observed.containers.some((c) => c.name === name && c.state === "running");
  const inTurn = containersInTurn(pod, observed, observed.sandboxes[0]?.id);
  return inTurn.some(({ name }) => !isUp(name)) || ephemeralInTurn(pod, observed).length > 0;
}

interface SandboxScene {
  readonly desired: DesiredNow;
  readonly observed: ObservedPod;
  readonly memory: PodMemory;
  readonly now: number;
  /** False while something is awaited without which it cannot be run; whoever brings it wakes the pod. */
  readonly mayRunSandbox: boolean;
}

/** A new sandbox: first everything of the old ones is stopped, so that nothing of the pod ever runs twice. */
function planSandbox(
  plan: PlanInProgress,
  { desired, observed, memory, now, mayRunSandbox }: SandboxScene,
  { attempt, crashes, dueAt, why }: Extract<SandboxNeed, { kind: "create" }>,
): void {
  const { pod } = desired;
  const running = observed.containers.filter(mayRun);
  const reason = "the pod's sandbox changed, it will be killed and re-created";
  for (const container of stoppedInTurn(pod, running))
    proposeStop(plan, container, { pod, gracePeriodSeconds: gracePeriodOf(pod), why: reason });
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
