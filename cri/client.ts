import type { Clock } from "../host/clock.ts";
import type { Log } from "../host/log.ts";
import { type Connection, createConnection } from "./channel.ts";
import { type Containers, createContainers } from "./containers.ts";
import { socketPathOf } from "./endpoint.ts";
import { followEvents } from "./events/subscription.ts";
import { createImages, type Images } from "./images.ts";
import type { VerbMetrics } from "./metrics.ts";
import type { Runtime } from "./runtime.ts";
import { createNode, type Node } from "./runtime-control.ts";
import { createSandboxes } from "./sandboxes.ts";

export interface RuntimeOptions {
  /** `unix://` and the absolute path of the runtime's socket. */
  readonly endpoint: string;
  /** Where images are managed, if elsewhere. */
  readonly imageEndpoint?: string;
  /** The kubelet's `runtimeRequestTimeout`, two minutes by default there. */
  readonly requestTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for the jitter between attempts to reconnect. */
  readonly random: () => number;
}

/** A container runtime behind a socket. `createStreaming` and `createStats` take its connection for the rarer verbs. */
export interface CriRuntime extends Runtime, Node, Containers, Images {
  readonly connection: Connection;
  /** By verb, e.g. "RunPodSandbox"; verbs never called are missing. */
  metrics(): Readonly<Record<string, VerbMetrics>>;
  close(): void;
}

/**
 * Speaks CRI v1 over a unix socket. Nothing is sent before the first call; a runtime that is not there shows as
 * UNAVAILABLE, and calls succeed again by themselves once it is back. Throws INVALID_ARGUMENT for a wrong endpoint.
 */
export function createRuntime({ endpoint, imageEndpoint = endpoint, ...options }: RuntimeOptions): CriRuntime {
  const { requestTimeoutMs, clock, log, random } = options;
  const connection = createConnection({ socketPath: socketPathOf(endpoint), clock, log });
  const imageSocket = socketPathOf(imageEndpoint);
  const imageConnection =
    imageSocket === connection.socketPath ? connection : createConnection({ socketPath: imageSocket, clock, log });
  const node = createNode(connection, requestTimeoutMs);

  return {
    connection,
    ...node,
    ...createSandboxes(connection, requestTimeoutMs),
    ...createContainers(connection, requestTimeoutMs),
    ...createImages(imageConnection, requestTimeoutMs),
    events: (listener, signal) =>
      followEvents({ connection, version: node.version, clock, log, random }, listener, signal),
    metrics: () => ({ ...imageConnection.metrics(), ...connection.metrics() }),
    close() {
      imageConnection.close();
      connection.close();
    },
  };
}
