import { Client, credentials } from "@grpc/grpc-js";
import {
  ContainerDelete,
  Envelope,
  SubscribeRequest,
  TaskExit,
  TaskStart,
} from "../../proto/cri/gen/containerd-events.ts";
import { until } from "../bed/poll-until.ts";

/** What the runtime itself says, and when, in milliseconds since the epoch by its own stamp. */
export interface ContainerEvent {
  readonly what: "started" | "deleted" | "exited";
  /** Of a sandbox or of a container. */
  readonly id: string;
  /** Its first process, of one that was started. */
  readonly pid?: number;
  readonly at: number;
}

export interface ContainerEvents {
  /** Resolves with the next `count` events of one kind, of `id` alone if it is given. Rejects when they have not come in time. */
  next(what: ContainerEvent["what"], count: number, timeoutMs: number, id?: string): Promise<readonly ContainerEvent[]>;
  stop(): void;
}

const filters = [
  `topic=="/tasks/start"`,
  `topic=="/tasks/exit"`,
  `topic=="/containers/delete"`,
  `topic~="^/namespaces/"`,
];

/**
 * Listens to containerd's own events, which all its releases have, so that nobody has to poll while something is measured.
 * `provoke` makes any event happen: servers do not say when a subscription stands.
 */
export async function followContainers(endpoint: string, provoke: () => Promise<unknown>): Promise<ContainerEvents> {
  const client = new Client(endpoint, credentials.createInsecure());
  const listeners = new Set<(event: ContainerEvent) => void>();
  let hasBegun = false;
  const stream = client.makeServerStreamRequest<SubscribeRequest, Envelope>(
    "/containerd.services.events.v1.Events/Subscribe",
    (request) => Buffer.from(SubscribeRequest.encode(request).finish()),
    (bytes) => Envelope.decode(bytes),
    { filters },
  );
  // A stream that breaks shows as events that do not come.
  stream.on("error", () => undefined);
  stream.on("data", (envelope: Envelope) => {
    hasBegun = true;
    const event = readEvent(envelope);
    if (event !== undefined) for (const hear of listeners) hear(event);
  });
  await until("an event of containerd", 10_000, async () => {
    await provoke();
    return hasBegun;
  });
  return {
    next: (what, count, timeoutMs, id) =>
      new Promise((resolve, reject) => {
        const events: ContainerEvent[] = [];
        const giveUp = setTimeout(() => {
          listeners.delete(hear);
          reject(new Error(`${events.length} of ${count} containers were ${what} within ${timeoutMs} ms`));
        }, timeoutMs);
        function hear(event: ContainerEvent): void {
          if (event.what !== what || (id !== undefined && event.id !== id) || events.push(event) < count) return;
          clearTimeout(giveUp);
          listeners.delete(hear);
          resolve(events);
        }
        listeners.add(hear);
      }),
    stop() {
      stream.cancel();
      client.close();
    },
  };
}

function readEvent({ topic, event, timestamp }: Envelope): ContainerEvent | undefined {
  const bytes = event?.value ?? new Uint8Array();
  const at = millisecondsOf(timestamp);
  switch (topic) {
    case "/tasks/start": {
      const { containerId: id, pid } = TaskStart.decode(bytes);
      return { what: "started", id, pid, at };
    }
    case "/tasks/exit": {
      const { containerId: id, exitedAt } = TaskExit.decode(bytes);
      return { what: "exited", id, at: millisecondsOf(exitedAt) };
    }
    case "/containers/delete":
      return { what: "deleted", id: ContainerDelete.decode(bytes).id, at };
    default:
      return undefined;
  }
}

const millisecondsOf = (time: Envelope["timestamp"]) => Number(time?.seconds ?? 0n) * 1000 + (time?.nanos ?? 0) / 1e6;
