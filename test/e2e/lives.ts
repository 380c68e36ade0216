import { Client, credentials } from "@grpc/grpc-js";
import {
  ContainerCreate,
  Envelope,
  SubscribeRequest,
  TaskExit,
  TaskStart,
} from "../../proto/cri/gen/containerd-events.ts";
import { containerNameLabel, podUidLabel } from "../../proto/cri/labels.ts";
import type { Containerd } from "../bed/containerd.ts";
import { until } from "../bed/until.ts";

/** The process of one sandbox or container, from its start to its end, by the runtime's clock in nanoseconds. */
export interface Life {
  readonly id: string;
  /** The pod's uid and `sandbox`, or the name of the container. */
  readonly owner: string;
  readonly startedAt: bigint;
  /** Undefined while it lives. */
  readonly endedAt: bigint | undefined;
}

export interface Recording {
  /** All lives so far, in the order of their starts. Rejects if one belongs to nobody, or if an event may be missing. */
  lives(): Promise<readonly Life[]>;
  stop(): void;
}

/** Records containerd's own event log from now on. Returns once the subscription stands. */
export async function recordLives(containerd: Containerd): Promise<Recording> {
  const client = new Client(containerd.endpoint, credentials.createInsecure());
  const owners = new Map<string, Promise<string>>();
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
    owners.set(id, ownerOf(containerd, id));
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
      return livesOf(
        events,
        new Map(await Promise.all([...owners].map(async ([id, owner]) => [id, await owner] as const))),
      );
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
        .filter((later) => life.endedAt === undefined || later.startedAt < life.endedAt)
        .map((later) => `${owner} lived as ${life.id} and as ${later.id} at once`),
    ),
  );
}

function livesOf(events: readonly Envelope[], owners: ReadonlyMap<string, string>): readonly Life[] {
  const lives = new Map<string, Life>();
  for (const { topic, event, timestamp } of events) {
    const at = (timestamp?.seconds ?? 0n) * 1_000_000_000n + BigInt(timestamp?.nanos ?? 0);
    if (topic === "/tasks/start") {
      const { containerId: id } = TaskStart.decode(event!.value);
      const owner = owners.get(id);
      if (owner === undefined) throw new Error(`${id} was started, and nobody was seen to create it`);
      lives.set(id, { id, owner, startedAt: at, endedAt: undefined });
    }
    if (topic === "/tasks/exit") {
      const { containerId, id } = TaskExit.decode(event!.value);
      const life = lives.get(containerId);
      // A command executed in a container has an id of its own.
      if (life !== undefined && id === containerId) lives.set(id, { ...life, endedAt: at });
    }
  }
  return [...lives.values()].toSorted((a, b) => (a.startedAt < b.startedAt ? -1 : 1));
}

async function ownerOf(containerd: Containerd, id: string): Promise<string> {
  const shown = await containerd.ctr(["-n", "k8s.io", "containers", "info", id]).catch(() => undefined);
  if (shown === undefined) return `${id}, which was gone at once`;
  const { Labels: labels } = JSON.parse(shown) as { readonly Labels: Readonly<Record<string, string>> };
  return `${labels[podUidLabel]} ${labels[containerNameLabel] ?? "sandbox"}`;
}
