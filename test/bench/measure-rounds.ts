import type { MeasuredRuntime } from "./measured-runtime.ts";

/** Whoever starts and removes pods: the agent, or the raw calls that are the floor. */
export interface Subject {
  readonly runtime: MeasuredRuntime;
  /** Asks for pods; resolves with when each was asked for, in milliseconds since the epoch, by the name the runtime has. */
  start(names: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Asks for the end of all its pods; the answer as above. */
  removeAll(): Promise<ReadonlyMap<string, number>>;
  /** Resolves when nothing of what was asked for is left to do. */
  settled(): Promise<void>;
}

/** The pods of one round: for each how long it took, and how long all took, in milliseconds. */
export interface Round {
  readonly each: readonly number[];
  readonly wall: number;
}

const PATIENCE_MS = 120_000;

/** Asked for → all its containers run, by the `startedAt` of the runtime's own status. */
export async function measureStarts(subject: Subject, names: readonly string[]): Promise<Round> {
  const { runtime } = subject;
  // The sandbox's own process and the container's.
  const started = runtime.events.next("started", 2 * names.length, PATIENCE_MS);
  const [asked] = await Promise.all([subject.start(names), started]);
  await subject.settled();
  const pods = await runtime.pods();
  return roundOf(
    asked,
    pods.map(({ name, runningAt }) => [name, runningAt]),
  );
}

/** Asked to end → the sandbox is removed, by the stamp of the runtime's own event. */
export async function measureRemovals(subject: Subject): Promise<Round> {
  const { runtime } = subject;
  const pods = await runtime.pods();
  const deleted = runtime.events.next("deleted", 2 * pods.length, PATIENCE_MS);
  const [asked, events] = await Promise.all([subject.removeAll(), deleted]);
  await subject.settled();
  const nameOf = new Map(pods.map(({ name, sandboxId }) => [sandboxId, name]));
  return roundOf(
    asked,
    events.flatMap(({ id, at }) => {
      const name = nameOf.get(id);
      return name === undefined ? [] : [[name, at]];
    }),
  );
}

function roundOf(asked: ReadonlyMap<string, number>, done: readonly (readonly [string, number])[]): Round {
  if (done.length !== asked.size) throw new Error(`${asked.size} pods were asked for, and ${done.length} seen`);
  const each = done.map(([name, at]) => {
    const askedAt = asked.get(name);
    if (askedAt === undefined) throw new Error(`nobody asked for pod ${name}`);
    return at - askedAt;
  });
  const wall = Math.max(...done.map(([, at]) => at)) - Math.min(...asked.values());
  return { each, wall };
}
