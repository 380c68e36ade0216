import { CriError } from "../../../cri/error.ts";
import type { CriCallOptions, Runtime } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import type { Log } from "../../../host/log/log.ts";
import type { StatusResponse } from "../../../proto/cri/gen/api.ts";
import { type ObservedCgroupDriver, type ObservedRuntime, unknownRuntime } from "../../decide/node/observed-node.ts";

/** The features that the runtime and its handlers report. */
type RuntimeFeatures = Pick<ObservedRuntime, "handlers" | "supplementalGroupsPolicy">;

export interface RuntimeStatusReaderOptions {
  readonly runtime: Pick<Runtime, "version" | "status">;
  /** Which cgroup driver the runtime uses. Rejects with `CriError`. */
  readonly readCgroupDriver: (options: CriCallOptions) => Promise<ObservedCgroupDriver | undefined>;
  readonly clock: Clock;
  readonly log: Log;
  /** The status has changed, apart from the time of the last response. */
  readonly onChange: () => void;
  /** The connection was lost: another runtime may respond after it. */
  readonly onDisconnected: () => void;
}

/** The only reader of the runtime's Version, Status and cgroup driver: for pods, for admission and for the node's conditions. */
export interface RuntimeStatusReader {
  now(): ObservedRuntime;
  /** The runtime's name; empty until it was read on the current connection. */
  name(): string;
  /** The runtime's features; undefined until it has reported them. */
  features(): RuntimeFeatures | undefined;
  /** Reads the status. If the runtime does not respond, the last one stays, except that it is not ready. */
  refresh(deadlineMs?: number): Promise<void>;
  /** Reads the status unless it was read on the current connection. Rejects if the runtime does not respond. */
  ensureRead(): Promise<void>;
  /** The connection to the runtime was lost. */
  markDisconnected(): void;
}

/** A runtime that does not respond in this time is not ready. */
const REQUEST_TIMEOUT_MS = 10_000;

export function createRuntimeStatusReader(options: RuntimeStatusReaderOptions): RuntimeStatusReader {
  const { runtime, clock, log, onChange, onDisconnected } = options;
  let observed = unknownRuntime;
  let connection = 0;
  let connectionRead: number | undefined;
  const isRead = () => connectionRead === connection;

  /** Returns why the read failed; undefined if it succeeded. */
  async function read(deadlineMs: number): Promise<{ readonly error: unknown } | undefined> {
    const startedOn = connection;
    // After an outage another or a newer runtime may respond.
    const isIdentified = isRead() && observed.isReady && observed.name !== "";
    const requestOptions = { deadlineMs };
    try {
      const [status, version, cgroupDriver] = await Promise.all([
        runtime.status(requestOptions),
        ...(isIdentified ? [] : ([runtime.version(requestOptions), cgroupDriverOf(options, requestOptions)] as const)),
      ]);
      const identity = version && { name: version.runtimeName, version: version.runtimeVersion, cgroupDriver };
      if (startedOn === connection) connectionRead = connection;
      update(({ noResponse: _, ...before }) => ({
        ...before,
        ...identity,
        ...toObservedRuntime(status, before.readyAt, clock.now()),
      }));
      return undefined;
    } catch (error) {
      log.debug({ err: error }, "cannot read the status of the container runtime");
      update((before) => ({ ...before, isReady: false, noResponse: messageOf(error) }));
      return { error };
    }
  }

  function update(next: (before: ObservedRuntime) => ObservedRuntime): void {
    const before = withPastReadyAt(observed, clock.now());
    observed = next(before);
    if (!isSameState(before, observed)) onChange();
  }

  return {
    now: () => observed,
    name: () => (isRead() ? observed.name : ""),
    features: () => (observed.conditions === undefined ? undefined : observed),
    refresh: async (deadlineMs = REQUEST_TIMEOUT_MS) => void (await read(deadlineMs)),
    async ensureRead() {
      const failure = isRead() ? undefined : await read(REQUEST_TIMEOUT_MS);
      if (failure !== undefined) throw failure.error;
    },
    markDisconnected() {
      connection += 1;
      onDisconnected();
    },
  };
}

/** Undefined also if the runtime does not say: then the driver is unknown. */
async function cgroupDriverOf(
  { readCgroupDriver, log }: RuntimeStatusReaderOptions,
  requestOptions: CriCallOptions,
): Promise<ObservedCgroupDriver | undefined> {
  try {
    return await readCgroupDriver(requestOptions);
  } catch (error) {
    if (!(error instanceof CriError)) throw error;
    log.debug({ err: error }, "cannot read the cgroup driver of the container runtime");
    return undefined;
  }
}

function toObservedRuntime(
  response: StatusResponse,
  readyBefore: number | undefined,
  now: number,
): Omit<ObservedRuntime, "name" | "version" | "cgroupDriver"> {
  const { status } = response;
  const conditions = (status?.conditions ?? []).map(({ type, status: isTrue, reason, message }) => ({
    type,
    status: isTrue,
    reason,
    message,
  }));
  const isReady = isConditionTrue(conditions, "RuntimeReady");
  return {
    conditions,
    ...featuresOf(response),
    readyAt: isReady ? now : readyBefore,
    isReady,
  };
}

/**
 * A handler feature that is missing in the status is not supported; a missing `supplementalGroupsPolicy` is unknown. The
 * handlers are sorted, since containerd 2.0 lists them in another order at each call, which is no change.
 */
function featuresOf({ runtimeHandlers, features }: StatusResponse): RuntimeFeatures {
  const handlers = runtimeHandlers.map(({ name, features: own }) => ({
    name,
    recursiveReadOnlyMounts: own?.recursiveReadOnlyMounts ?? false,
    userNamespaces: own?.userNamespaces ?? false,
  }));
  return {
    handlers: handlers.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
    supplementalGroupsPolicy: features?.supplementalGroupsPolicy,
  };
}

function isConditionTrue(conditions: ObservedRuntime["conditions"], type: string): boolean {
  return conditions?.find((condition) => condition.type === type)?.status === true;
}

/** Whether runtime and network are ready. */
export function isHealthy({ isReady, conditions }: ObservedRuntime): boolean {
  return isReady && isConditionTrue(conditions, "NetworkReady");
}

/** Limits `readyAt` to the present: after the clock was set back, the time without a response counts from now on. */
function withPastReadyAt({ readyAt, ...runtime }: ObservedRuntime, now: number): ObservedRuntime {
  return { ...runtime, readyAt: readyAt === undefined ? undefined : Math.min(readyAt, now) };
}

/** Whether two states are equal, apart from the time of the last response. */
function isSameState(
  { readyAt: one, ...before }: ObservedRuntime,
  { readyAt: other, ...after }: ObservedRuntime,
): boolean {
  return (one === undefined) === (other === undefined) && JSON.stringify(before) === JSON.stringify(after);
}
