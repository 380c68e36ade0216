import type { MeasuredRuntime } from "./measured-runtime.ts";

/** A program under measurement that starts and removes pods: the agent, or the floor with its raw calls. */
export interface Subject {
  readonly runtime: MeasuredRuntime;
  /**
   * Requests pods. Resolves with the time of each request, in milliseconds since the epoch, by the pod's name in the
   * runtime.
   */
  start(names: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Requests the removal of all its pods; resolves as `start`. */
  removeAll(): Promise<ReadonlyMap<string, number>>;
  /** Resolves when all requested work is done. */
  settled(): Promise<void>;
}

/** The durations of one round in milliseconds: of each pod, and of all together. */
export interface Round {
  readonly each: readonly number[];
  readonly wall: number;
}

const TIMEOUT_MS = 120_000;

/** Measures from the request of each pod to the start of its container, by the runtime's `startedAt`. */
export async function measureStarts(subject: Subject, names: readonly string[]): Promise<Round> {
  const { runtime } = subject;
  // The sandbox's own process and the container's.
  const started = runtime.events.next("started", 2 * names.length, TIMEOUT_MS);
  const [requestTimes] = await Promise.all([subject.start(names), started]);
  await subject.settled();
  const pods = await runtime.pods();
  return roundOf(
    requestTimes,
    pods.map(({ name, runningAt }) => [name, runningAt]),
  );
}

/**
 * Measures from the request of each removal to the deletion of the sandbox, by the timestamp of the runtime's event.
 */
export async function measureRemovals(subject: Omit<Subject, "start">): Promise<Round> {
  const { runtime } = subject;
  const pods = await runtime.pods();
  const deleted = runtime.events.next("deleted", 2 * pods.length, TIMEOUT_MS);
  const [requestTimes, events] = await Promise.all([subject.removeAll(), deleted]);
  await subject.settled();
  const nameOf = new Map(pods.map(({ name, sandboxId }) => [sandboxId, name]));
  return roundOf(
    requestTimes,
    events.flatMap(({ id, at }) => {
      const name = nameOf.get(id);
      return name === undefined ? [] : [[name, at]];
    }),
  );
}

function roundOf(requestTimes: ReadonlyMap<string, number>, done: readonly (readonly [string, number])[]): Round {
  if (done.length !== requestTimes.size)
    throw new Error(`${requestTimes.size} pods were requested, but ${done.length} observed`);
  const each = done.map(([name, at]) => {
    const requestedAt = requestTimes.get(name);
    if (requestedAt === undefined) throw new Error(`pod ${name} was not requested`);
    return at - requestedAt;
  });
  const wall = Math.max(...done.map(([, at]) => at)) - Math.min(...requestTimes.values());
  return { each, wall };
}
