import { Client, credentials } from "@grpc/grpc-js";
import {
  ContainerDelete,
  Envelope,
  SubscribeRequest,
  TaskExit,
  TaskStart,
} from "../../proto/cri/gen/containerd-events.ts";
import { pollUntil } from "../bed/poll-until.ts";

/** An event of the runtime, with the runtime's own timestamp in milliseconds since the epoch. */
export interface ContainerdEvent {
  readonly kind: "started" | "deleted" | "exited";
  /** The id of a sandbox or a container. */
  readonly id: string;
  /** For `started`: the id of the first process. */
  readonly pid?: number;
  readonly at: number;
}

export interface ContainerdEvents {
  /**
   * Resolves with the next `count` events of one kind, only those of `id` if it is given. Rejects after the timeout.
   */
  next(
    kind: ContainerdEvent["kind"],
    count: number,
    timeoutMs: number,
    id?: string,
  ): Promise<readonly ContainerdEvent[]>;
  stop(): void;
}

const filters = [
  `topic=="/tasks/start"`,
  `topic=="/tasks/exit"`,
  `topic=="/containers/delete"`,
  `topic~="^/namespaces/"`,
];

/**
 * Subscribes to containerd's own events, which all its releases have, so that nothing polls during a measurement.
 * `causeEvent` causes some event: a server does not acknowledge a subscription.
 */
export async function subscribeToContainerd(
  endpoint: string,
  causeEvent: () => Promise<unknown>,
): Promise<ContainerdEvents> {
  const client = new Client(endpoint, credentials.createInsecure());
  const listeners = new Set<(event: ContainerdEvent) => void>();
  let isSubscribed = false;
  const stream = client.makeServerStreamRequest<SubscribeRequest, Envelope>(
    "/containerd.services.events.v1.Events/Subscribe",
    (request) => Buffer.from(SubscribeRequest.encode(request).finish()),
    (bytes) => Envelope.decode(bytes),
    { filters },
  );
  // If the stream breaks, the callers' timeouts report the missing events.
  stream.on("error", () => undefined);
  stream.on("data", (envelope: Envelope) => {
    isSubscribed = true;
    const event = readEvent(envelope);
    if (event !== undefined) for (const onEvent of listeners) onEvent(event);
  });
  await pollUntil("an event of containerd", 10_000, async () => {
    await causeEvent();
    return isSubscribed;
  });
  return {
    next: (kind, count, timeoutMs, id) =>
      new Promise((resolve, reject) => {
        const events: ContainerdEvent[] = [];
        const timer = setTimeout(() => {
          listeners.delete(onEvent);
          reject(new Error(`${events.length} of ${count} containers were ${kind} within ${timeoutMs} ms`));
        }, timeoutMs);
        function onEvent(event: ContainerdEvent): void {
          if (event.kind !== kind || (id !== undefined && event.id !== id) || events.push(event) < count) return;
          clearTimeout(timer);
          listeners.delete(onEvent);
          resolve(events);
        }
        listeners.add(onEvent);
      }),
    stop() {
      stream.cancel();
      client.close();
    },
  };
}

function readEvent({ topic, event, timestamp }: Envelope): ContainerdEvent | undefined {
  const bytes = event?.value ?? new Uint8Array();
  const at = millisecondsOf(timestamp);
  switch (topic) {
    case "/tasks/start": {
      const { containerId: id, pid } = TaskStart.decode(bytes);
      return { kind: "started", id, pid, at };
    }
    case "/tasks/exit": {
      const { containerId: id, exitedAt } = TaskExit.decode(bytes);
      return { kind: "exited", id, at: millisecondsOf(exitedAt) };
    }
    case "/containers/delete":
      return { kind: "deleted", id: ContainerDelete.decode(bytes).id, at };
    default:
      return undefined;
  }
}

const millisecondsOf = (time: Envelope["timestamp"]) => Number(time?.seconds ?? 0n) * 1000 + (time?.nanos ?? 0) / 1e6;
