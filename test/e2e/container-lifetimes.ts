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
import { until } from "../bed/poll-until.ts";

/** One sandbox or container while it runs or could be started, by the runtime's clock in nanoseconds. */
export interface Life {
  readonly id: string;
  /** The pod's uid and `sandbox`, or the name of the container. */
  readonly owner: string;
  readonly createdAt: bigint;
  /** Undefined until its process was started. */
  readonly startedAt: bigint | undefined;
  /** When its process exited, or it was deleted without one. Undefined while it lives. */
  readonly endedAt: bigint | undefined;
  /** The containers that CRI showed as ended right after this one was created. */
  readonly endedBefore: ReadonlySet<string>;
}

export interface Recording {
  /** All lives so far, in the order in which they were created. Rejects if one belongs to nobody, or if an event may be missing. */
  lives(): Promise<readonly Life[]>;
  stop(): void;
}

/** Records containerd's own event log from now on. Returns once the subscription stands. */
export async function recordLives(containerd: Containerd): Promise<Recording> {
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
    // Asked at once: a container may be gone a moment later.
    origins.set(id, originOf(containerd, id));
  });
  // The server does not say when the subscription stands, so something is done over and over until it shows.
  await until("an event of containerd", 10_000, async () => {
    await containerd.ctr(["namespaces", "create", "heard"]);
    await containerd.ctr(["namespaces", "remove", "heard"]);
    return events.length > 0;
  });
  return {
    async lives() {
      if (failure !== undefined) throw failure;
      const known = [...origins].map(async ([id, origin]) => [id, await origin] as const);
      return livesOf(events, new Map(await Promise.all(known)));
    },
    stop() {
      stream.cancel();
      client.close();
    },
  };
}

/** One sentence for each two lives of one owner that overlap. */
export function livedTwice(lives: readonly Life[]): readonly string[] {
  return [...Map.groupBy(lives, ({ owner }) => owner)].flatMap(([owner, own]) =>
    own.flatMap((life, at) =>
      own
        .slice(at + 1)
        .filter((later) => overlap(life, later))
        .map((later) => `${owner} lived as ${life.id} and as ${later.id} at once`),
    ),
  );
}

/** A start that was cut short CRI shows as an exit some milliseconds before containerd tells of it. */
const TOLD_LATE_NS = 500_000_000n;

/**
 * Two that run at once overlap, however shortly; of two of which the later one was not started yet that news may be late. Of one that was
 * never started CRI alone tells the end: no event comes of a start that was cut short before it had a process.
 */
function overlap(earlier: Life, { createdAt, startedAt, endedBefore }: Life): boolean {
  const { id, endedAt } = earlier;
  if (earlier.startedAt === undefined && endedBefore.has(id)) return false;
  if (endedAt === undefined) return true;
  const ranAtOnce = startedAt !== undefined && startedAt < endedAt;
  return ranAtOnce || createdAt + TOLD_LATE_NS < endedAt;
}

function livesOf(events: readonly Envelope[], origins: ReadonlyMap<string, Origin>): readonly Life[] {
  const lives = new Map<string, Life>();
  const change = (id: string, how: (life: Life) => Partial<Life>) => {
    const life = lives.get(id);
    if (life !== undefined) lives.set(id, { ...life, ...how(life) });
  };
  for (const { topic, event, timestamp } of events) {
    const at = (timestamp?.seconds ?? 0n) * 1_000_000_000n + BigInt(timestamp?.nanos ?? 0);
    const bytes = event?.value ?? new Uint8Array();
    switch (topic) {
      case "/containers/create": {
        const { id } = ContainerCreate.decode(bytes);
        const { owner, endedBefore } = origins.get(id) ?? { owner: id, endedBefore: new Set<string>() };
        lives.set(id, { id, owner, createdAt: at, startedAt: undefined, endedAt: undefined, endedBefore });
        break;
      }
      case "/tasks/create":
        // CRI shows a start that was cut short as an exit, which no event tells of, or one that comes late: what is not started is no
        // life any more.
        change(TaskCreate.decode(bytes).containerId, () => ({ endedAt: at }));
        break;
      case "/tasks/start": {
        const { containerId: id } = TaskStart.decode(bytes);
        if (!lives.has(id)) throw new Error(`${id} was started, and nobody was seen to create it`);
        change(id, () => ({ startedAt: at, endedAt: undefined }));
        break;
      }
      case "/tasks/exit": {
        const { containerId, id } = TaskExit.decode(bytes);
        // A command executed in a container has an id of its own.
        if (id === containerId)
          change(id, ({ startedAt, endedAt }) => ({ endedAt: startedAt === undefined ? endedAt : at }));
        break;
      }
      case "/containers/delete":
        change(ContainerDelete.decode(bytes).id, ({ endedAt = at }) => ({ endedAt }));
        break;
    }
  }
  return [...lives.values()].toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
}

interface Origin {
  readonly owner: string;
  readonly endedBefore: ReadonlySet<string>;
}

async function originOf(containerd: Containerd, id: string): Promise<Origin> {
  const [owner, endedBefore] = await Promise.all([ownerOf(containerd, id), endedIn(containerd)]);
  return { owner, endedBefore };
}

async function endedIn({ endpoint }: Containerd): Promise<ReadonlySet<string>> {
  const exited = ListContainersRequest.fromPartial({ filter: { state: { state: ContainerState.CONTAINER_EXITED } } });
  const request = [ListContainersRequest, exited] as const;
  const { containers } = await callCri(endpoint, "RuntimeService/ListContainers", request, ListContainersResponse);
  return new Set(containers.map(({ id }) => id));
}

async function ownerOf(containerd: Containerd, id: string): Promise<string> {
  const shown = await containerd.ctr(["-n", "k8s.io", "containers", "info", id]).catch(() => undefined);
  if (shown === undefined) return `${id}, which was gone at once`;
  const { Labels: labels } = JSON.parse(shown) as { readonly Labels: Readonly<Record<string, string>> };
  return `${labels[podUidLabel]} ${labels[containerNameLabel] ?? "sandbox"}`;
}
