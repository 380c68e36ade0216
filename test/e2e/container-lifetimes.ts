import { Client, credentials } from "@grpc/grpc-js";
import { ContainerState, ListContainersRequest, ListContainersResponse } from "../../proto/cri/gen/api.ts";
import {
  ContainerCreate,
  ContainerDelete,
  Envelope,
  SubscribeRequest,
  TaskCreate,
  TaskExit,
  TaskStart,
} from "../../proto/cri/gen/containerd-events.ts";
import { containerNameLabel, podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import type { Containerd } from "../bed/containerd/containerd.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { pollUntil } from "../bed/poll-until.ts";

/**
 * The lifetime of one sandbox or container: while it runs or could be started. Times are the runtime's, in nanoseconds.
 */
export interface Lifetime {
  readonly id: string;
  /** The pod's uid and `sandbox`, or the name of the container. */
  readonly owner: string;
  readonly createdAt: bigint;
  /** When its process was started; undefined before. */
  readonly startedAt: bigint | undefined;
  /** When its process exited, or when it was deleted without a process. Undefined while it exists. */
  readonly endedAt: bigint | undefined;
  /** The containers that CRI reported as exited right after this one was created. */
  readonly exitedBefore: ReadonlySet<string>;
}

export interface LifetimeRecording {
  /** All lifetimes so far, in the order of creation. Rejects if an event is missing. */
  all(): Promise<readonly Lifetime[]>;
  stop(): void;
}

/** Records containerd's events from now on. Returns once the subscription is established. */
export async function recordLifetimes(containerd: Containerd): Promise<LifetimeRecording> {
  const client = new Client(containerd.endpoint, credentials.createInsecure());
  const origins = new Map<string, Promise<Origin>>();
  const events: Envelope[] = [];
  let failure: Error | undefined;
  const stream = client.makeServerStreamRequest<SubscribeRequest, Envelope>(
    "/containerd.services.events.v1.Events/Subscribe",
    (request) => Buffer.from(SubscribeRequest.encode(request).finish()),
    (bytes) => Envelope.decode(bytes),
    SubscribeRequest.fromPartial({}),
  );
  stream.on("error", (error) => {
    failure = error;
  });
  stream.on("data", (event: Envelope) => {
    events.push(event);
    if (event.topic !== "/containers/create") return;
    const { id } = ContainerCreate.decode(event.event!.value);
    // Read at once: the container may be gone a moment later.
    origins.set(id, originOf(containerd, id));
  });
  // The server does not confirm the subscription, so create events until one arrives.
  await pollUntil("an event of containerd", 10_000, async () => {
    await containerd.ctr(["namespaces", "create", "subscribed"]);
    await containerd.ctr(["namespaces", "remove", "subscribed"]);
    return events.length > 0;
  });
  return {
    async all() {
      if (failure !== undefined) throw failure;
      const known = [...origins].map(async ([id, origin]) => [id, await origin] as const);
      return lifetimesOf(events, new Map(await Promise.all(known)));
    },
    stop() {
      stream.cancel();
      client.close();
    },
  };
}

/** One sentence for each two lifetimes of one owner that overlap. */
export function findOverlaps(lifetimes: readonly Lifetime[]): readonly string[] {
  return [...Map.groupBy(lifetimes, ({ owner }) => owner)].flatMap(([owner, own]) =>
    own.flatMap((lifetime, at) =>
      own
        .slice(at + 1)
        .filter((later) => overlap(lifetime, later))
        .map((later) => `${owner} existed as ${lifetime.id} and as ${later.id} at once`),
    ),
  );
}

/** CRI reports an interrupted start as an exit some milliseconds before containerd sends the event. */
const LATE_EVENT_NS = 500_000_000n;

/**
 * Two instances that run at the same time overlap, however briefly. If the later one was not started yet, the exit
 * event of the earlier one may be late. If the earlier one was never started, only CRI shows its end: containerd sends
 * no event for a start that was interrupted before it had a process.
 */
function overlap(earlier: Lifetime, { createdAt, startedAt, exitedBefore }: Lifetime): boolean {
  const { id, endedAt } = earlier;
  if (earlier.startedAt === undefined && exitedBefore.has(id)) return false;
  if (endedAt === undefined) return true;
  const ranAtOnce = startedAt !== undefined && startedAt < endedAt;
  return ranAtOnce || createdAt + LATE_EVENT_NS < endedAt;
}

function lifetimesOf(events: readonly Envelope[], origins: ReadonlyMap<string, Origin>): readonly Lifetime[] {
  const lifetimes = new Map<string, Lifetime>();
  const update = (id: string, how: (lifetime: Lifetime) => Partial<Lifetime>) => {
    const lifetime = lifetimes.get(id);
    if (lifetime !== undefined) lifetimes.set(id, { ...lifetime, ...how(lifetime) });
  };
  for (const { topic, event, timestamp } of events) {
    const at = (timestamp?.seconds ?? 0n) * 1_000_000_000n + BigInt(timestamp?.nanos ?? 0);
    const bytes = event?.value ?? new Uint8Array();
    switch (topic) {
      case "/containers/create": {
        const { id } = ContainerCreate.decode(bytes);
        const { owner, exitedBefore } = origins.get(id) ?? { owner: id, exitedBefore: new Set<string>() };
        lifetimes.set(id, { id, owner, createdAt: at, startedAt: undefined, endedAt: undefined, exitedBefore });
        break;
      }
      case "/tasks/create":
        // CRI reports an interrupted start as an exit, for which the event is missing or late: until it is started the
        // container counts as ended.
        update(TaskCreate.decode(bytes).containerId, () => ({ endedAt: at }));
        break;
      case "/tasks/start": {
        const { containerId: id } = TaskStart.decode(bytes);
        if (!lifetimes.has(id)) throw new Error(`${id} was started, but no event shows its creation`);
        update(id, () => ({ startedAt: at, endedAt: undefined }));
        break;
      }
      case "/tasks/exit": {
        const { containerId, id } = TaskExit.decode(bytes);
        // A command executed in a container has an id of its own.
        if (id === containerId)
          update(id, ({ startedAt, endedAt }) => ({ endedAt: startedAt === undefined ? endedAt : at }));
        break;
      }
      case "/containers/delete":
        update(ContainerDelete.decode(bytes).id, ({ endedAt = at }) => ({ endedAt }));
        break;
    }
  }
  return [...lifetimes.values()].toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
}

interface Origin {
  readonly owner: string;
  readonly exitedBefore: ReadonlySet<string>;
}

async function originOf(containerd: Containerd, id: string): Promise<Origin> {
  const [owner, exitedBefore] = await Promise.all([ownerOf(containerd, id), listExited(containerd)]);
  return { owner, exitedBefore };
}

async function listExited({ endpoint }: Containerd): Promise<ReadonlySet<string>> {
  const exited = ListContainersRequest.fromPartial({ filter: { state: { state: ContainerState.CONTAINER_EXITED } } });
  const request = [ListContainersRequest, exited] as const;
  const { containers } = await callCri(endpoint, "RuntimeService/ListContainers", request, ListContainersResponse);
  return new Set(containers.map(({ id }) => id));
}

async function ownerOf(containerd: Containerd, id: string): Promise<string> {
  // The container may be removed meanwhile.
  const shown = await containerd.ctr(["-n", "k8s.io", "containers", "info", id]).catch(() => undefined);
  if (shown === undefined) return `${id}, which was gone at once`;
  const { Labels: labels } = JSON.parse(shown) as { readonly Labels: Readonly<Record<string, string>> };
  return `${labels[podUidLabel]} ${labels[containerNameLabel] ?? "sandbox"}`;
}
