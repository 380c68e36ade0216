import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import { allContainers, isRunToCompletion } from "../../../proto/kubernetes/containers.ts";
import type { Container, ContainerStatus, Pod, Probe } from "../../../proto/kubernetes/gen/types.ts";
import {
  firstProbeAt,
  healthOfStates,
  initialProbeState,
  isProbeActive,
  nextProbeAt,
  nextProbeState,
  type ProbeKind,
  type ProbeOutcome,
  type ProbeState,
  probeKinds,
} from "../../decide/container/probe.ts";
import { type DesiredPod, fullNameOf } from "../../decide/pod/desired.ts";
import {
  awaitsPostStart,
  type ContainerHealth,
  newestInstanceOf,
  type ObservedContainer,
  type ObservedPod,
} from "../../decide/pod/observed.ts";
import { addressesOf } from "../../decide/status/pod-ips.ts";
import { previousStatusOf, previousStatusOfInstance } from "../../decide/status/previous-status.ts";

/** Runs the probes of all containers, each at its own period, with a single timer. */
export interface Prober {
  /** The observed pod with the health of its containers by the probes so far. Changes nothing. */
  withHealth(observed: ObservedPod, desired: DesiredPod | undefined): ObservedPod;
  /** The pod was observed: starts and stops probes, so that they fit its running containers. */
  onObserved(observed: ObservedPod, desired: DesiredPod | undefined): void;
  /** The pod terminates: stops its startup and liveness probes, since its containers are not restarted any more. */
  stopRestartProbes(uid: PodUid): void;
  /** Nothing is left of the pod. */
  forget(uid: PodUid): void;
  /** Starts no more probes; resolves when no probe is running. */
  stop(): Promise<void>;
}

/** One probe of one instance of a container. */
export interface ProbeTarget {
  readonly uid: PodUid;
  readonly pod: Pod;
  readonly container: Container;
  readonly id: ContainerId;
  readonly kind: ProbeKind;
  readonly probe: Probe;
  readonly podIP: string | undefined;
}

export interface ProberOptions {
  /**
   * Runs one probe. Rejects only because of a bug, which must not affect more than this result: any pod could trigger
   * it.
   */
  readonly runProbe: (target: ProbeTarget, signal: AbortSignal) => Promise<ProbeOutcome>;
  /** Receives each result. */
  readonly onResult: (target: ProbeTarget, outcome: ProbeOutcome) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly wake: (uid: PodUid) => void;
  /** The node's own addresses, the primary first. */
  readonly hostIPs: () => readonly string[];
  /** Returns a number in [0, 1), for jitter. */
  readonly random: () => number;
}

/** The schedule and the state of one probe of one instance. */
interface ProbeSchedule {
  state: ProbeState;
  /** Undefined while the probe runs, and while it waits for the container to start. */
  dueAt: number | undefined;
  isRunning: boolean;
}

/** The probes of one instance. */
interface ProbedContainer {
  readonly schedules: Map<ProbeKind, ProbeSchedule>;
  readonly startedAt: number;
  /** The instance was running before this agent started, and an earlier agent has reported it. */
  readonly wasProbedBefore: boolean;
  readonly abort: AbortController;
  target: Omit<ProbeTarget, "kind" | "probe">;
}

/** How often a probe that could not be executed is tried. The kubelet's value. */
const MAX_ATTEMPTS = 3;

interface ProberState extends ProberOptions {
  /** When this agent started. */
  readonly agentStartedAt: number;
  readonly pods: Map<PodUid, Map<ContainerId, ProbedContainer>>;
  readonly underWay: Set<Promise<void>>;
  timer: { readonly at: number; readonly cancel: () => void } | undefined;
  /** The latest time that was seen on the clock. */
  latestTime: number;
  isStopped: boolean;
}

export function createProber(options: ProberOptions): Prober {
  const agentStartedAt = options.clock.now();
  const prober: ProberState = {
    ...options,
    agentStartedAt,
    pods: new Map(),
    underWay: new Set(),
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
  { pods }: ProberState,
  observed: ObservedPod,
  desired: DesiredPod,
): ReadonlyMap<ContainerId, ContainerHealth> {
  const known = pods.get(desired.uid);
  const previousStatus = previousStatusOf(desired.pod);
  return new Map(
    probedInstances(observed, desired).map(({ container, instance: { id } }) => {
      const schedules = known?.get(id)?.schedules;
      const reported = toReportedProbes(previousStatusOfInstance(previousStatus, id));
      const states = probesOf(container).map(
        (kind) => [kind, schedules?.get(kind)?.state ?? initialProbeState(kind, reported)] as const,
      );
      return [id, healthOfStates(Object.fromEntries(states))];
    }),
  );
}

/** What an earlier agent has reported of this very instance. */
function toReportedProbes(reported: ReturnType<typeof previousStatusOfInstance>) {
  return reported && { isStarted: reported.started === true, isReady: reported.ready };
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
    const reported = previousStatusOfInstance(previousStatus, id);
    const wasProbedBefore = reported !== undefined && startedAt < prober.agentStartedAt;
    const probed = before?.get(id) ?? newProbedContainer(target, startedAt, wasProbedBefore);
    updateProbes(probed, target, reported);
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
  target: ProbedContainer["target"],
  startedAt: number,
  wasProbedBefore: boolean,
): ProbedContainer {
  return { target, schedules: new Map(), startedAt, wasProbedBefore, abort: new AbortController() };
}

/** Adds and removes probes: a changed manifest may do so while the container runs. */
function updateProbes(
  probed: ProbedContainer,
  target: ProbedContainer["target"],
  reported: ContainerStatus | undefined,
): void {
  probed.target = target;
  const { schedules } = probed;
  const kinds = probesOf(target.container);
  for (const kind of probeKinds) if (!kinds.includes(kind)) schedules.delete(kind);
  const known = toReportedProbes(reported);
  for (const kind of kinds)
    if (!schedules.has(kind))
      schedules.set(kind, { state: initialProbeState(kind, known), dueAt: undefined, isRunning: false });
}

/** Sets the first due time of probes that are to run from now on. */
function scheduleFirst(prober: ProberState, probed: ProbedContainer): void {
  const { clock, random } = prober;
  const states = statesOf(probed);
  for (const [kind, schedule] of probed.schedules) {
    const probe = probeOf(probed.target.container, kind);
    if (probe === undefined || schedule.isRunning || schedule.dueAt !== undefined || !isProbeActive(kind, states))
      continue;
    const { startedAt, wasProbedBefore } = probed;
    schedule.dueAt = firstProbeAt(probe, { startedAt, now: clock.now(), wasProbedBefore, random: random() });
  }
  for (const { dueAt } of probed.schedules.values()) setTimerBy(prober, dueAt);
}

/** Sets the timer to the probe that is due first. Scans all probes, which may be many. */
function setTimerToNext(prober: ProberState): void {
  let at: number | undefined;
  for (const { dueAt } of allSchedules(prober))
    if (dueAt !== undefined && dueAt < (at ?? Number.POSITIVE_INFINITY)) at = dueAt;
  setTimer(prober, at);
}

/** Sets the timer after only this due time was added. */
function setTimerBy(prober: ProberState, dueAt: number | undefined): void {
  if (dueAt !== undefined && dueAt < (prober.timer?.at ?? Number.POSITIVE_INFINITY)) setTimer(prober, dueAt);
}

function setTimer(prober: ProberState, dueAt: number | undefined): void {
  const at = prober.isStopped ? undefined : dueAt;
  if (at === prober.timer?.at) return;
  prober.timer?.cancel();
  prober.timer = at === undefined ? undefined : { at, cancel: prober.clock.wakeAt(at, () => onTimer(prober, at)) };
}

function* allSchedules({ pods }: ProberState): Generator<ProbeSchedule> {
  for (const ofPod of pods.values()) for (const { schedules } of ofPod.values()) yield* schedules.values();
}

/** Moves all due times back with a clock that was set back: otherwise no probe would run for that long. */
function adjustToClock(prober: ProberState, now: number): void {
  const backMs = prober.latestTime - now;
  prober.latestTime = now;
  if (backMs <= 0) return;
  for (const schedule of allSchedules(prober)) if (schedule.dueAt !== undefined) schedule.dueAt -= backMs;
  setTimerToNext(prober);
}

function onTimer(prober: ProberState, at: number): void {
  const { clock, pods, underWay } = prober;
  prober.timer = undefined;
  const now = clock.now();
  // Timers fire when their time has passed, whatever the wall clock says.
  prober.latestTime = Math.max(prober.latestTime, at);
  adjustToClock(prober, now);
  for (const ofPod of pods.values())
    for (const probed of ofPod.values())
      for (const [kind, { dueAt }] of probed.schedules) {
        if (dueAt === undefined || dueAt > now) continue;
        const work = executeProbe(prober, probed, kind, dueAt).finally(() => underWay.delete(work));
        underWay.add(work);
      }
  setTimerToNext(prober);
}

async function executeProbe(
  prober: ProberState,
  probed: ProbedContainer,
  kind: ProbeKind,
  dueAt: number,
): Promise<void> {
  const schedule = probed.schedules.get(kind);
  const probe = probeOf(probed.target.container, kind);
  if (schedule === undefined || probe === undefined) return;
  schedule.dueAt = undefined;
  schedule.isRunning = true;
  const target: ProbeTarget = { ...probed.target, kind, probe };
  const outcome = await probeWithRetries(prober, target, probed.abort.signal);
  schedule.isRunning = false;
  adjustToClock(prober, prober.clock.now());
  // The container has exited meanwhile, or its pod terminates: ignore the result.
  if (probed.abort.signal.aborted || probed.schedules.get(kind) !== schedule) return;
  prober.onResult(target, outcome);
  applyOutcome(prober, probed, schedule, { target, outcome });
  if (isProbeActive(kind, statesOf(probed))) schedule.dueAt = nextProbeAt(probe, dueAt, prober.clock.now());
  scheduleFirst(prober, probed);
}

async function probeWithRetries(
  { runProbe, log }: ProberState,
  target: ProbeTarget,
  signal: AbortSignal,
): Promise<ProbeOutcome> {
  try {
    let outcome = await runProbe(target, signal);
    for (let tries = 1; tries < MAX_ATTEMPTS && outcome.result === "error" && !signal.aborted; tries++)
      outcome = await runProbe(target, signal);
    return outcome;
  } catch (error) {
    const { kind, pod, container } = target;
    const fields = { pod: fullNameOf(pod), container: container.name, err: error };
    log.error(fields, `cannot run the ${kind} probe of container ${container.name}`);
    return { result: "error", message: error instanceof Error ? error.message : String(error) };
  }
}

interface ProbeResult {
  readonly target: ProbeTarget;
  readonly outcome: ProbeOutcome;
}

function applyOutcome(
  { log, wake }: ProberState,
  probed: ProbedContainer,
  schedule: ProbeSchedule,
  { target, outcome }: ProbeResult,
): void {
  const { kind, probe, uid, pod, container } = target;
  const before = healthOfStates(statesOf(probed));
  schedule.state = nextProbeState(kind, probe, schedule.state, outcome);
  if (isSameHealth(before, healthOfStates(statesOf(probed)))) return;
  // Do not log the probe's output, which only the event contains: it may hold secrets of the container.
  const fields = { pod: fullNameOf(pod), container: container.name };
  log.info(fields, `the ${kind} probe of container ${container.name} now returns ${outcome.result}`);
  wake(uid);
}

/** Stops the probes that lead to restarts. Readiness continues: it matters for traffic until the pod is gone. */
function stopRestartProbesOf({ schedules }: ProbedContainer): void {
  for (const kind of ["startup", "liveness"] as const) {
    const known = schedules.get(kind);
    if (known !== undefined)
      schedules.set(kind, {
        state: { ...known.state, result: "success", hasEnded: true },
        dueAt: undefined,
        isRunning: false,
      });
  }
}

function statesOf({ schedules }: ProbedContainer): Partial<Record<ProbeKind, ProbeState>> {
  return Object.fromEntries([...schedules].map(([kind, { state }]) => [kind, state]));
}

function probeOf({ startupProbe, livenessProbe, readinessProbe }: Container, kind: ProbeKind): Probe | undefined {
  return { startup: startupProbe, liveness: livenessProbe, readiness: readinessProbe }[kind];
}

const probesOf = (container: Container) => probeKinds.filter((kind) => probeOf(container, kind) !== undefined);

const hasProbes = ({ spec }: Pod) => allContainers(spec).some((container) => probesOf(container).length > 0);

/** Run-to-completion init containers have no probes. */
function isProbed(pod: Pod, container: Container): boolean {
  return !isRunToCompletion(pod, container) && probesOf(container).length > 0;
}

function isSameHealth(a: ContainerHealth, b: ContainerHealth): boolean {
  return a.isReady === b.isReady && a.isStarted === b.isStarted && a.failedProbe === b.failedProbe;
}
