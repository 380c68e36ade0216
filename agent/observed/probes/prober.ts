import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import { allContainers, runsToItsEnd, statusOfInstance } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod, Probe } from "../../../proto/kubernetes/gen/types.ts";
import {
  afterProbe,
  beginProbe,
  firstProbeAt,
  healthOfStates,
  isAsked,
  nextProbeAt,
  type ProbeKind,
  type ProbeOutcome,
  type ProbeState,
  probeKinds,
} from "../../decide/container/probe.ts";
import { type DesiredPod, fullNameOf } from "../../decide/pod/desired.ts";
import { awaitsHook, type ContainerHealth, newestOf, type ObservedPod } from "../../decide/pod/observed.ts";
import { addressesOf } from "../../decide/status/pod-ips.ts";

/** Asks the containers that want to be asked, each in its own beat, by one timer for all of them. */
export interface Probes {
  /** Takes note of what is to be asked, and adds to an observed pod what the answers say. */
  look(observed: ObservedPod, desired: DesiredPod | undefined): ObservedPod;
  /** The pod has to end, whoever said so: nobody restarts its containers any more. */
  ending(uid: PodUid): void;
  /** Nothing is left of the pod. */
  forget(uid: PodUid): void;
  /** Asks nobody any more; resolves when nobody is being asked. */
  stop(): Promise<void>;
}

/** One question to one instance of a container. */
export interface Question {
  readonly uid: PodUid;
  readonly pod: Pod;
  readonly container: Container;
  readonly id: ContainerId;
  readonly kind: ProbeKind;
  readonly probe: Probe;
  readonly podIP: string | undefined;
}

export interface ProbesSettings {
  /** Rejects by a mistake of ours alone, which must not cost more than this answer: anybody's pod may trip over it. */
  readonly ask: (question: Question, signal: AbortSignal) => Promise<ProbeOutcome>;
  /** Hears of each answer. */
  readonly answered: (question: Question, outcome: ProbeOutcome) => void;
  readonly clock: Clock;
  readonly log: Log;
  readonly wake: (uid: PodUid) => void;
  /** The node's own addresses, the primary first. */
  readonly hostIPs: () => readonly string[];
  /** From 0 up to 1. */
  readonly random: () => number;
}

/** One probe of one instance. */
interface Asked {
  state: ProbeState;
  /** Undefined while it is being asked, and as long as it has to wait for the container to start. */
  dueAt: number | undefined;
  isUnderWay: boolean;
}

/** What is asked of one instance. */
interface Probed {
  readonly asked: Map<ProbeKind, Asked>;
  readonly startedAt: number;
  /** An agent before this one has told of it. */
  readonly isFoundRunning: boolean;
  readonly life: AbortController;
  question: Omit<Question, "kind" | "probe">;
}

/** A question that could not be asked is asked again at once, so often. */
const MOST_TRIES = 3;

interface Room extends ProbesSettings {
  /** When this agent began. */
  readonly bornAt: number;
  readonly pods: Map<PodUid, Map<ContainerId, Probed>>;
  readonly underWay: Set<Promise<void>>;
  timer: { readonly at: number; readonly cancel: () => void } | undefined;
  /** The latest time that is known to have come. */
  seenAt: number;
  isStopped: boolean;
}

export function createProbes(settings: ProbesSettings): Probes {
  const bornAt = settings.clock.now();
  const room: Room = {
    ...settings,
    bornAt,
    pods: new Map(),
    underWay: new Set(),
    timer: undefined,
    seenAt: bornAt,
    isStopped: false,
  };
  const { pods, underWay } = room;
  return {
    look(observed, desired) {
      const isAboutUs = pods.has(observed.uid) || (desired !== undefined && hasProbes(desired.pod));
      if (!isAboutUs || room.isStopped) return observed;
      if (desired !== undefined) return { ...observed, health: lookAt(room, observed, desired) };
      forget(room, observed.uid);
      return observed;
    },
    ending(uid) {
      const ofPod = pods.get(uid);
      if (ofPod === undefined) return;
      for (const probed of ofPod.values()) letGo(probed);
      schedule(room);
    },
    forget: (uid) => forget(room, uid),
    async stop() {
      room.isStopped = true;
      for (const uid of [...pods.keys()]) forget(room, uid);
      await Promise.all(underWay);
    },
  };
}

function forget(room: Room, uid: PodUid): void {
  for (const { life } of room.pods.get(uid)?.values() ?? []) life.abort();
  room.pods.delete(uid);
  schedule(room);
}

function lookAt(
  room: Room,
  observed: ObservedPod,
  { uid, pod }: DesiredPod,
): ReadonlyMap<ContainerId, ContainerHealth> {
  const { pods } = room;
  keepPace(room, room.clock.now());
  const before = pods.get(uid);
  const now = new Map<ContainerId, Probed>();
  for (const container of allContainers(pod.spec).filter((each) => isProbed(pod, each))) {
    const newest = newestOf(observed, container.name);
    if (newest?.state !== "running" || awaitsHook(observed, newest)) continue;
    const { id, startedAt } = newest;
    const [podIP] = addressesOf(pod, observed, room.hostIPs());
    const question = { uid, pod, container, id, podIP };
    const probed = before?.get(id) ?? enter(question, startedAt, room.bornAt);
    follow(probed, question);
    now.set(id, probed);
    arm(room, probed);
  }
  const gone = [...(before ?? [])].filter(([id]) => !now.has(id));
  for (const [, probed] of gone) probed.life.abort();
  if (now.size === 0) pods.delete(uid);
  else pods.set(uid, now);
  if (gone.length > 0) schedule(room);
  return new Map([...now].map(([id, probed]) => [id, healthOfStates(statesOf(probed))]));
}

function enter(question: Probed["question"], startedAt: number, bornAt: number): Probed {
  const isFoundRunning = statusOfInstance(question.pod.status, question.id) !== undefined && startedAt < bornAt;
  return { question, asked: new Map(), startedAt, isFoundRunning, life: new AbortController() };
}

/** A manifest may gain and lose probes while its container runs on. */
function follow(probed: Probed, question: Probed["question"]): void {
  probed.question = question;
  const { asked } = probed;
  const kinds = probesOf(question.container);
  for (const kind of probeKinds) if (!kinds.includes(kind)) asked.delete(kind);
  const told = statusOfInstance(question.pod.status, question.id);
  const known = told && { isStarted: told.started === true, isReady: told.ready };
  for (const kind of kinds)
    if (!asked.has(kind)) asked.set(kind, { state: beginProbe(kind, known), dueAt: undefined, isUnderWay: false });
}

/** Gives a first time to what is to be asked from now on. */
function arm(room: Room, probed: Probed): void {
  const { clock, random } = room;
  const states = statesOf(probed);
  for (const [kind, asked] of probed.asked) {
    const probe = probeOf(probed.question.container, kind);
    if (probe === undefined || asked.isUnderWay || asked.dueAt !== undefined || !isAsked(kind, states)) continue;
    const { startedAt, isFoundRunning } = probed;
    asked.dueAt = firstProbeAt(probe, { startedAt, now: clock.now(), isFoundRunning, lot: random() });
  }
  for (const { dueAt } of probed.asked.values()) scheduleBy(room, dueAt);
}

/** One timer stands for the probe that is due first. Looks for it among all, which are many. */
function schedule(room: Room): void {
  let at: number | undefined;
  for (const { dueAt } of allAsked(room))
    if (dueAt !== undefined && dueAt < (at ?? Number.POSITIVE_INFINITY)) at = dueAt;
  setTimer(room, at);
}

/** The same where nothing but this time has come. */
function scheduleBy(room: Room, dueAt: number | undefined): void {
  if (dueAt !== undefined && dueAt < (room.timer?.at ?? Number.POSITIVE_INFINITY)) setTimer(room, dueAt);
}

function setTimer(room: Room, wanted: number | undefined): void {
  const at = room.isStopped ? undefined : wanted;
  if (at === room.timer?.at) return;
  room.timer?.cancel();
  room.timer = at === undefined ? undefined : { at, cancel: room.clock.wakeAt(at, () => ring(room, at)) };
}

function* allAsked({ pods }: Room): Generator<Asked> {
  for (const ofPod of pods.values()) for (const { asked } of ofPod.values()) yield* asked.values();
}

/** A clock that is set back must silence nobody for as long: what is due moves back with it. */
function keepPace(room: Room, now: number): void {
  const backMs = room.seenAt - now;
  room.seenAt = now;
  if (backMs <= 0) return;
  for (const asked of allAsked(room)) if (asked.dueAt !== undefined) asked.dueAt -= backMs;
  schedule(room);
}

function ring(room: Room, at: number): void {
  const { clock, pods, underWay } = room;
  room.timer = undefined;
  const now = clock.now();
  // Timers ring when the time is up, whatever the clock says.
  room.seenAt = Math.max(room.seenAt, at);
  keepPace(room, now);
  for (const ofPod of pods.values())
    for (const probed of ofPod.values())
      for (const [kind, { dueAt }] of probed.asked) {
        if (dueAt === undefined || dueAt > now) continue;
        const work = putQuestion(room, probed, kind, dueAt).finally(() => underWay.delete(work));
        underWay.add(work);
      }
  schedule(room);
}

async function putQuestion(room: Room, probed: Probed, kind: ProbeKind, dueAt: number): Promise<void> {
  const asked = probed.asked.get(kind);
  const probe = probeOf(probed.question.container, kind);
  if (asked === undefined || probe === undefined) return;
  Object.assign(asked, { dueAt: undefined, isUnderWay: true });
  const question: Question = { ...probed.question, kind, probe };
  const outcome = await askUntilAnswered(room, question, probed.life.signal);
  asked.isUnderWay = false;
  keepPace(room, room.clock.now());
  // The container has ended meanwhile, or its pod has to: the answer is about nothing that is there.
  if (probed.life.signal.aborted || probed.asked.get(kind) !== asked) return;
  room.answered(question, outcome);
  take(room, probed, asked, { question, outcome });
  if (isAsked(kind, statesOf(probed))) asked.dueAt = nextProbeAt(probe, dueAt, room.clock.now());
  arm(room, probed);
}

async function askUntilAnswered({ ask, log }: Room, question: Question, signal: AbortSignal): Promise<ProbeOutcome> {
  try {
    let outcome = await ask(question, signal);
    for (let tries = 1; tries < MOST_TRIES && outcome.result === "error" && !signal.aborted; tries++)
      outcome = await ask(question, signal);
    return outcome;
  } catch (error) {
    const { kind, pod, container } = question;
    const fields = { pod: fullNameOf(pod), container: container.name, err: error };
    log.error(fields, `the ${kind} probe of container ${container.name} could not be asked`);
    return { result: "error", message: error instanceof Error ? error.message : String(error) };
  }
}

interface Answer {
  readonly question: Question;
  readonly outcome: ProbeOutcome;
}

function take({ log, wake }: Room, probed: Probed, asked: Asked, { question, outcome }: Answer): void {
  const { kind, probe, uid, pod, container } = question;
  const before = healthOfStates(statesOf(probed));
  asked.state = afterProbe(kind, probe, asked.state, outcome);
  if (isSameHealth(before, healthOfStates(statesOf(probed)))) return;
  // The answer is told by the event alone: it may hold what the container alone should know.
  const fields = { pod: fullNameOf(pod), container: container.name };
  log.info(fields, `the ${kind} probe of container ${container.name} says ${outcome.result}`);
  wake(uid);
}

/** A pod that has to end is restarted by nobody; whether it gets traffic matters until it is gone. */
function letGo({ asked }: Probed): void {
  for (const kind of ["startup", "liveness"] as const) {
    const known = asked.get(kind);
    if (known !== undefined)
      asked.set(kind, {
        state: { ...known.state, verdict: "success", isOver: true },
        dueAt: undefined,
        isUnderWay: false,
      });
  }
}

function statesOf({ asked }: Probed): Partial<Record<ProbeKind, ProbeState>> {
  return Object.fromEntries([...asked].map(([kind, { state }]) => [kind, state]));
}

function probeOf({ startupProbe, livenessProbe, readinessProbe }: Container, kind: ProbeKind): Probe | undefined {
  return { startup: startupProbe, liveness: livenessProbe, readiness: readinessProbe }[kind];
}

const probesOf = (container: Container) => probeKinds.filter((kind) => probeOf(container, kind) !== undefined);

const hasProbes = ({ spec }: Pod) => allContainers(spec).some((container) => probesOf(container).length > 0);

/** An init container that runs to its end has nothing to be asked. */
function isProbed(pod: Pod, container: Container): boolean {
  return !runsToItsEnd(pod, container) && probesOf(container).length > 0;
}

function isSameHealth(a: ContainerHealth, b: ContainerHealth): boolean {
  return a.isReady === b.isReady && a.isStarted === b.isStarted && a.failed === b.failed;
}
