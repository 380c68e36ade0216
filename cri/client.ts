import type { Clock } from "../host/clock.ts";
import type { Log } from "../host/log/log.ts";
import { type CallRecord, createChannel } from "./channel.ts";
import { type Containers, createContainers } from "./containers.ts";
import { socketPathOf } from "./endpoint.ts";
import { subscribeToEvents } from "./events/subscription.ts";
import { createImages, type Images } from "./images.ts";
import type { Runtime } from "./runtime.ts";
import { createRuntimeControl, type RuntimeControl } from "./runtime-control.ts";
import { createSandboxes } from "./sandboxes.ts";
import { createStreaming } from "./streaming.ts";

export interface RuntimeOptions {
  /** `unix://` and the absolute path of the runtime's socket. */
  readonly endpoint: string;
  /** The endpoint of the image service, if it is another one. */
  readonly imageEndpoint?: string;
  /** The kubelet's `runtimeRequestTimeout`, two minutes by default there. */
  readonly requestTimeoutMs: number;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1, for the jitter between attempts to reconnect. */
  readonly random: () => number;
  /** Receives each call to the runtime when it has ended. */
  readonly onCall?: (call: CallRecord) => void;
}

/** A container runtime behind a socket. */
export interface CriRuntime extends Runtime, RuntimeControl, Containers, Images {
  close(): void;
}

/**
 * Creates a client for CRI v1 over a unix socket. It connects with the first call. Calls fail with UNAVAILABLE while
 * the runtime is not running, and succeed again once it is back. Throws INVALID_ARGUMENT for an invalid endpoint.
 */
export function createRuntime({ endpoint, imageEndpoint = endpoint, ...options }: RuntimeOptions): CriRuntime {
  const { requestTimeoutMs, clock, log, random, onCall } = options;
  const channel = createChannel({ socketPath: socketPathOf(endpoint), clock, log, onCall });
  const imageSocket = socketPathOf(imageEndpoint);
  const imageChannel =
    imageSocket === channel.socketPath ? channel : createChannel({ socketPath: imageSocket, clock, log, onCall });
  const runtimeControl = createRuntimeControl(channel, requestTimeoutMs);

  return {
    ...runtimeControl,
    ...createSandboxes(channel, requestTimeoutMs),
    ...createContainers(channel, requestTimeoutMs),
    ...createStreaming(channel, requestTimeoutMs),
    ...createImages(imageChannel, requestTimeoutMs),
    events: (listener, signal) =>
      subscribeToEvents({ channel, version: runtimeControl.version, clock, log, random }, listener, signal),
    close() {
      imageChannel.close();
      channel.close();
    },
  };
}
