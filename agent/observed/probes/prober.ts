import { createSemaphore } from "../../../host/async/semaphore.ts";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import { allContainers, isRunToCompletion } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import {
  type EarlierHealth,
  healthOfStates,
  initialProbeState,
  probeKinds,
  withEarlierHealth,
} from "../../decide/container/probe.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import {
  awaitsPostStart,
  type ContainerHealth,
  newestInstanceOf,
  type ObservedContainer,
  type ObservedPod,
} from "../../decide/pod/observed.ts";
import { addressesOf } from "../../decide/status/pod-ips.ts";
import {
  type PreviousStatus,
  previousStatusOf,
  previousStatusOfInstance,
} from "../../decide/status/previous-status.ts";
import { runDueProbes, scheduleFirst } from "./probe-runs.ts";
import { adjustToClock, setTimerToNext } from "./probe-timer.ts";
import {
  MAX_EARLY_EXECS,
  type ProbedContainer,
  type ProberOptions,
  type ProberState,
  type ProbeSchedule,
  probesOf,
} from "./prober-state.ts";

/** Runs the probes of all containers, each by its own schedule, with a single timer. */
export interface Prober {
  /** The observed pod with the health of its containers by the probes so far. Changes nothing. */
  withHealth(observed: ObservedPod, desired: DesiredPod | undefined): ObservedPod;
  /** The pod was observed: starts and stops probes, so that they fit its running containers. */
  onObserved(observed: ObservedPod, desired: DesiredPod | undefined): void;
  /**
   * The pod terminates: stops its startup and liveness probes, since its containers are not restarted any more. From then on
   * ignores a readiness command that was killed or could not run, since the stop of its container also ends its commands.
   */
  stopRestartProbes(uid: PodUid): void;
  /** Nothing is left of the pod. */
  forget(uid: PodUid): void;
  /** Starts no more probes; resolves when no probe is running. */
  stop(): Promise<void>;
}

export function createProber(options: ProberOptions): Prober {
  const agentStartedAt = options.clock.now();
  const prober: ProberState = {
    ...options,
    agentStartedAt,
    pods: new Map(),
    underWay: new Set(),
    earlyExecs: createSemaphore({ permits: MAX_EARLY_EXECS }),
    onTimer: (at) => runDueProbes(prober, at),
    timer: undefined,
    latestTime: agentStartedAt,
    isStopped: false,
  };
  const { pods, underWay } = prober;
  return {
    withHealth(observed, desired) {
      if (desired === undefined || !hasProbes(desired.pod) || prober.isStopped) return observed;
      return { ...observed, health: healthOf(prober, observed, desired) };
    },
    onObserved(observed, desired) {
      const isRelevant = pods.has(observed.uid) || (desired !== undefined && hasProbes(desired.pod));
      if (!isRelevant || prober.isStopped) return;
      if (desired === undefined) forget(prober, observed.uid);
      else updatePod(prober, observed, desired);
    },
    stopRestartProbes(uid) {
      const ofPod = pods.get(uid);
      if (ofPod === undefined) return;
      for (const probed of ofPod.values()) stopRestartProbesOf(probed);
      setTimerToNext(prober);
    },
    forget: (uid) => forget(prober, uid),
    async stop() {
      prober.isStopped = true;
      for (const uid of [...pods.keys()]) forget(prober, uid);
      await Promise.all(underWay);
    },
  };
}

function forget(prober: ProberState, uid: PodUid): void {
  for (const { abort } of prober.pods.get(uid)?.values() ?? []) abort.abort();
  prober.pods.delete(uid);
  setTimerToNext(prober);
}

interface ProbedInstance {
  readonly container: Container;
  readonly instance: Extract<ObservedContainer, { readonly state: "running" }>;
}

/** The running instances that are to be probed. */
function probedInstances(observed: ObservedPod, { pod }: DesiredPod): readonly ProbedInstance[] {
  return allContainers(pod.spec)
    .filter((container) => isProbed(pod, container))
    .flatMap((container) => {
      const instance = newestInstanceOf(observed, container.name);
      return instance?.state !== "running" || awaitsPostStart(observed, instance) ? [] : [{ container, instance }];
    });
}

/** The health of the running containers; a probe that has not started yet counts with its initial state. */
function healthOf(
  { pods, agentStartedAt }: ProberState,
  observed: ObservedPod,
  desired: DesiredPod,
): ReadonlyMap<ContainerId, ContainerHealth> {
  const known = pods.get(desired.uid);
  const previousStatus = previousStatusOf(desired.pod);
  return new Map(
    probedInstances(observed, desired).map(({ container, instance }) => {
      const schedules = known?.get(instance.id)?.schedules;
      const earlier = earlierHealthOf(observed, instance, { agentStartedAt, previousStatus });
      const states = probesOf(container).map((kind) => {
        const state = schedules?.get(kind)?.state ?? initialProbeState(kind, undefined);
        return [kind, withEarlierHealth(kind, state, earlier)] as const;
      });
      return [instance.id, healthOfStates(Object.fromEntries(states))];
    }),
  );
}

/**
 * What an earlier agent has found out about this instance. Berth leaves marks on disk, also for pods that no API server
 * knows; of a kubelet only the status in the API server is left.
 */
function earlierHealthOf(
  { probeMarks }: ObservedPod,
  instance: ProbedInstance["instance"],
  { agentStartedAt, previousStatus }: { readonly agentStartedAt: number; readonly previousStatus: PreviousStatus },
): EarlierHealth {
  if (instance.startedAt >= agentStartedAt) return undefined;
  const marks = probeMarks.filter(({ name, attempt }) => name === instance.name && attempt === instance.attempt);
  const reported = previousStatusOfInstance(previousStatus, instance.id);
  return {
    isStarted: marks.some(({ mark }) => mark === "started") || reported?.started === true,
    isReady: marks.some(({ mark }) => mark === "ready") || reported?.ready === true,
  };
}

function updatePod(prober: ProberState, observed: ObservedPod, desired: DesiredPod): void {
  const { pods } = prober;
  const { uid, pod } = desired;
  const previousStatus = previousStatusOf(pod);
  adjustToClock(prober, prober.clock.now());
  const before = pods.get(uid);
  const now = new Map<ContainerId, ProbedContainer>();
  for (const { container, instance } of probedInstances(observed, desired)) {
    const { id, startedAt } = instance;
    const [podIP] = addressesOf(pod, observed, prober.hostIPs());
    const target = { uid, pod, container, id, podIP };
    const earlier = earlierHealthOf(observed, instance, { agentStartedAt: prober.agentStartedAt, previousStatus });
    const probed = before?.get(id) ?? newProbedContainer(prober, target, startedAt);
    updateProbes(probed, target, earlier);
    now.set(id, probed);
    scheduleFirst(prober, probed);
  }
  const gone = [...(before ?? [])].filter(([id]) => !now.has(id));
  for (const [, probed] of gone) probed.abort.abort();
  if (now.size === 0) pods.delete(uid);
  else pods.set(uid, now);
  if (gone.length > 0) setTimerToNext(prober);
}

function newProbedContainer(
  { clock, agentStartedAt }: ProberState,
  target: ProbedContainer["target"],
  startedAt: number,
): ProbedContainer {
  const hadHook = target.container.lifecycle?.postStart !== undefined && startedAt >= agentStartedAt;
  const notBefore = hadHook ? clock.now() : undefined;
  return { target, schedules: new Map(), startedAt, notBefore, abort: new AbortController(), isTerminating: false };
}

const newSchedule = (state: ProbeSchedule["state"]): ProbeSchedule => ({
  state,
  series: undefined,
  next: undefined,
  isRunning: false,
  turn: undefined,
});

/** Adds and removes probes: a changed manifest may do so while the container runs. */
function updateProbes(probed: ProbedContainer, target: ProbedContainer["target"], earlier: EarlierHealth): void {
  probed.target = target;
  const { schedules } = probed;
  const kinds = probesOf(target.container);
  for (const kind of probeKinds) if (!kinds.includes(kind)) schedules.delete(kind);
  for (const kind of kinds) {
    const schedule = schedules.get(kind) ?? newSchedule(initialProbeState(kind, earlier));
    schedules.set(kind, schedule);
    // The API server may return the pod only after the first tries.
    schedule.state = withEarlierHealth(kind, schedule.state, earlier);
    if (schedule.state.hasEnded) endTries(schedule);
  }
}

function endTries(schedule: ProbeSchedule): void {
  schedule.turn?.abort();
  schedule.next = undefined;
}

/**
 * Stops the probes that lead to restarts. Readiness continues: it matters for traffic until the pod is gone. A container that
 * has not started so far does not become ready by that: the kubelet, too, decides its status before it stops the probes.
 */
function stopRestartProbesOf(probed: ProbedContainer): void {
  const { schedules } = probed;
  probed.isTerminating = true;
  for (const kind of ["startup", "liveness"] as const) {
    const known = schedules.get(kind);
    if (known === undefined) continue;
    endTries(known);
    const result = kind === "liveness" || known.state.result === "success" ? "success" : "unknown";
    schedules.set(kind, newSchedule({ ...known.state, result, isInitial: false, hasEnded: true }));
  }
}

const hasProbes = ({ spec }: Pod) => allContainers(spec).some((container) => probesOf(container).length > 0);

/** Run-to-completion init containers have no probes. */
function isProbed(pod: Pod, container: Container): boolean {
  return !isRunToCompletion(pod, container) && probesOf(container).length > 0;
}
