import { Client, credentials, type ServiceError, status } from "@grpc/grpc-js";
import {
  ContainerState,
  ContainerStatusRequest,
  ContainerStatusResponse,
  ListContainersRequest,
  ListContainersResponse,
} from "../../proto/cri/gen/api.ts";
import {
  ContainerCreate,
  ContainerDelete,
  Envelope,
  SubscribeRequest,
  TaskCreate,
  TaskExit,
  TaskStart,
  type Timestamp,
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
  /** The earlier instances of the container whose end, by CRI, is before the creation of this one. */
  readonly exitedBefore: ReadonlySet<string>;
}

export interface LifetimeRecording {
  /**
   * All lifetimes so far, in the order of creation. Waits for the events that containerd has published by now. Rejects if
   * an event is missing.
   */
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
  stream.on("end", () => {
    failure ??= new Error("containerd has ended the stream of its events");
  });
  stream.on("data", (event: Envelope) => {
    events.push(event);
    if (event.topic !== "/containers/create") return;
    const { id } = ContainerCreate.decode(event.event!.value);
    // Read at once: the container may be gone a moment later.
    const origin = originOf(containerd, id, timeOf(event.timestamp));
    // `all` rejects with its error.
    origin.catch(() => undefined);
    origins.set(id, origin);
  });
  /** Publishes an event, and waits until it arrives: then all earlier ones have arrived, too. */
  const receiveAll = async () => {
    const ofNamespaces = () => events.filter(({ topic }) => topic === "/namespaces/create").length;
    const before = ofNamespaces();
    await pollUntil("an event of containerd", 10_000, async () => {
      if (failure !== undefined) throw failure;
      await containerd.ctr(["namespaces", "create", "subscribed"]);
      await containerd.ctr(["namespaces", "remove", "subscribed"]);
      return ofNamespaces() > before;
    });
  };
  // The server does not confirm the subscription.
  await receiveAll();
  return {
    async all() {
      await receiveAll();
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

/** A sandbox whose start was interrupted may be gone for CRI some milliseconds before containerd sends the event. */
const LATE_EVENT_NS = 500_000_000n;

/**
 * Two instances that run at the same time overlap, however briefly. A later one that has not been started overlaps, too,
 * if it was created before the end of the earlier one. CRI alone shows some ends in time: containerd sends no event for a
 * start that was interrupted before it had a process, and a late one if it had.
 */
function overlap(earlier: Lifetime, { createdAt, startedAt, exitedBefore }: Lifetime): boolean {
  const { id, endedAt, owner } = earlier;
  const ranAtOnce =
    earlier.startedAt !== undefined && startedAt !== undefined && (endedAt === undefined || startedAt < endedAt);
  if (ranAtOnce || exitedBefore.has(id)) return ranAtOnce;
  return endedAt === undefined || createdAt + (isOfSandbox(owner) ? LATE_EVENT_NS : 0n) < endedAt;
}

const isOfSandbox = (owner: string) => owner.endsWith(" sandbox");

const timeOf = ({ seconds, nanos }: Timestamp = { seconds: 0n, nanos: 0 }) => seconds * 1_000_000_000n + BigInt(nanos);

function lifetimesOf(events: readonly Envelope[], origins: ReadonlyMap<string, Origin>): readonly Lifetime[] {
  const lifetimes = new Map<string, Lifetime>();
  const update = (id: string, how: (lifetime: Lifetime) => Partial<Lifetime>) => {
    const lifetime = lifetimes.get(id);
    if (lifetime !== undefined) lifetimes.set(id, { ...lifetime, ...how(lifetime) });
  };
  for (const { topic, event, timestamp } of events) {
    const at = timeOf(timestamp);
    const bytes = event?.value ?? new Uint8Array();
    switch (topic) {
      case "/containers/create": {
        const { id } = ContainerCreate.decode(bytes);
        const { owner, exitedBefore } = origins.get(id) ?? { owner: id, exitedBefore: new Set<string>() };
        lifetimes.set(id, { id, owner, createdAt: at, startedAt: undefined, endedAt: undefined, exitedBefore });
        break;
      }
      case "/tasks/create":
        // CRI does not show a sandbox whose start was interrupted, and its event is missing or late: until it is started it
        // counts as ended.
        update(TaskCreate.decode(bytes).containerId, ({ owner }) => (isOfSandbox(owner) ? { endedAt: at } : {}));
        break;
      case "/tasks/start": {
        const { containerId: id } = TaskStart.decode(bytes);
        if (!lifetimes.has(id)) throw new Error(`${id} was started, but no event shows its creation`);
        update(id, () => ({ startedAt: at, endedAt: undefined }));
        break;
      }
      case "/tasks/exit": {
        const { containerId, id, exitedAt } = TaskExit.decode(bytes);
        // A command executed in a container has an id of its own. CRI may report the exit before the shim sends the event.
        if (id === containerId)
          update(id, ({ startedAt, endedAt }) => ({
            endedAt: startedAt === undefined ? (endedAt ?? timeOf(exitedAt)) : timeOf(exitedAt),
          }));
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

async function originOf(containerd: Containerd, id: string, createdAt: bigint): Promise<Origin> {
  const [owner, exited] = await Promise.all([ownerOf(containerd, id), listExited(containerd)]);
  const own = exited.filter(({ labels }) => ownerBy(labels) === owner);
  const endedBefore = await Promise.all(own.map((each) => hasEndedBefore(containerd, each.id, createdAt)));
  return { owner, exitedBefore: new Set(own.map((each) => each.id).filter((_, at) => endedBefore[at])) };
}

async function listExited({ endpoint }: Containerd) {
  const exited = ListContainersRequest.fromPartial({ filter: { state: { state: ContainerState.CONTAINER_EXITED } } });
  const request = [ListContainersRequest, exited] as const;
  return (await callCri(endpoint, "RuntimeService/ListContainers", request, ListContainersResponse)).containers;
}

/** Whether an exited container had ended at `time`. One that has been removed since it was listed counts as such. */
async function hasEndedBefore({ endpoint }: Containerd, containerId: string, time: bigint): Promise<boolean> {
  const request = [ContainerStatusRequest, ContainerStatusRequest.fromPartial({ containerId })] as const;
  const response = await callCri(endpoint, "RuntimeService/ContainerStatus", request, ContainerStatusResponse).catch(
    (error: ServiceError) => {
      if (error.code === status.NOT_FOUND) return undefined;
      throw error;
    },
  );
  return response === undefined || (response.status?.finishedAt ?? 0n) <= time;
}

async function ownerOf(containerd: Containerd, id: string): Promise<string> {
  const shown = await containerd.ctr(["-n", "k8s.io", "containers", "info", id]).catch((error: Error) => {
    // The container may be removed meanwhile.
    if (error.message.includes("not found")) return undefined;
    throw error;
  });
  if (shown === undefined) return `${id}, which was gone at once`;
  return ownerBy((JSON.parse(shown) as { readonly Labels: Readonly<Record<string, string>> }).Labels);
}

const ownerBy = (labels: Readonly<Record<string, string>>) =>
  `${labels[podUidLabel]} ${labels[containerNameLabel] ?? "sandbox"}`;
