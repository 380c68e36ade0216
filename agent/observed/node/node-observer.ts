import type { Runtime } from "../../../cri/runtime.ts";
import { type AutoResetEvent, createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { type BackoffOptions, backoffMs } from "../../../host/async/backoff.ts";
import { type Clock, sleepUnlessAborted } from "../../../host/clock.ts";
import type { Image } from "../../../proto/cri/gen/api.ts";
import type {
  NodeImage,
  NodeObservation,
  ObservedMachine,
  SignalMeasurement,
  SignalObservations,
} from "../../decide/node/observed-node.ts";
import { createSignalReader, type SignalReaderOptions } from "./eviction-signals.ts";
import {
  createRuntimeStatusReader,
  isHealthy,
  type RuntimeStatusReader,
  type RuntimeStatusReaderOptions,
} from "./runtime-status.ts";

export interface NodeObserverOptions extends Omit<SignalReaderOptions, "runtime"> {
  readonly runtime: Pick<Runtime, "version" | "status" | "listImages" | "imageFsInfo">;
  readonly readCgroupDriver: RuntimeStatusReaderOptions["readCgroupDriver"];
  readonly machine: ObservedMachine;
  /** The node's addresses, the primary first. */
  readonly addresses: () => readonly string[];
  readonly clock: Clock;
  /** The Node object or a rule reads the images. Without either they are not listed. */
  readonly needsImages: boolean;
  /** How often the signals are measured, and a ready runtime is read again: no event reports that it is not ready. */
  readonly refreshEveryMs: number;
  /** The observed node has changed. */
  readonly onChange: () => void;
  /** Receives each measurement of the eviction signals. */
  readonly onMeasured: (observations: SignalObservations) => void;
}

/** Observes the node: its runtime, images, addresses and eviction signals. */
export interface NodeObserver {
  now(): NodeObservation;
  /**
   * Observes what `run` observes once, except for the images. Resolves when all reads have finished or timed out; never
   * rejects.
   */
  observe(deadlineMs?: number): Promise<void>;
  /** Measures the signals and reads the runtime, and its images if needed, until the signal aborts. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
  readonly runtimeStatus: RuntimeStatusReader;
  /** An image was, or may have been, added or removed. */
  invalidateImages(): void;
}

/** The timeout of a request to the runtime. */
const REQUEST_TIMEOUT_MS = 10_000;
/** File systems respond in microseconds; one that takes this long is left out of the measurement. */
const MEASURE_TIMEOUT_MS = 1_000;
/**
 * A runtime that is not ready is read again after a tenth of a second, then with growing delays up to the kubelet's
 * period.
 */
const NOT_READY_BACKOFF: BackoffOptions = { initialMs: 100, maxMs: 5_000 };
/** The shortest time between two lists of images, as with the kubelet. */
const MIN_IMAGE_LIST_INTERVAL_MS = 30_000;

export function createNodeObserver(options: NodeObserverOptions): NodeObserver {
  const { clock, machine, addresses, signals, needsImages, refreshEveryMs, onChange, onMeasured } = options;
  const signalReader = createSignalReader(options);
  const wakeUps = { runtime: createAutoResetEvent(clock), images: createAutoResetEvent(clock) };
  const runtimeStatus = createRuntimeStatusReader({
    ...options,
    onDisconnected() {
      signalReader.invalidateRuntime();
      wakeUps.runtime.set();
    },
  });
  let images: readonly NodeImage[] | undefined;
  let measurement: SignalMeasurement | undefined;
  let measureStartedAt = Number.NEGATIVE_INFINITY;

  /** A file system that hangs blocks neither the reads of the runtime nor the other signals. */
  async function measure(timeoutMs = MEASURE_TIMEOUT_MS): Promise<void> {
    if (signals.size === 0) return;
    measureStartedAt = clock.now();
    const observations = await signalReader.read(timeoutMs);
    measurement = { at: clock.now(), observations };
    onMeasured(observations);
  }

  async function watchRuntimeAndSignals(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      // An unhealthy runtime is read more often, but the signals are not.
      if (Math.abs(clock.now() - measureStartedAt) >= refreshEveryMs) void measure();
      await runtimeStatus.refresh();
      // A runtime without a ready network is read as often as one that is not ready.
      failures = isHealthy(runtimeStatus.now()) ? 0 : failures + 1;
      const delayMs = failures === 0 ? refreshEveryMs : backoffMs(NOT_READY_BACKOFF, failures);
      await wakeUps.runtime.wait(clock.now() + delayMs, signal);
    }
  }

  function onImages(listed: readonly NodeImage[]): void {
    if (JSON.stringify(listed) === JSON.stringify(images)) return;
    images = listed;
    onChange();
  }

  return {
    runtimeStatus,
    now: () => ({
      machine,
      runtime: runtimeStatus.now(),
      addresses: addresses(),
      images,
      signals: measurement,
      isShuttingDown: false,
    }),
    async observe(deadlineMs = REQUEST_TIMEOUT_MS) {
      await Promise.all([runtimeStatus.refresh(deadlineMs), measure(Math.min(deadlineMs, MEASURE_TIMEOUT_MS))]);
    },
    async run(signal) {
      await Promise.all([
        watchRuntimeAndSignals(signal),
        needsImages ? watchImages(options, wakeUps.images, onImages, signal) : undefined,
      ]);
    },
    invalidateImages: () => wakeUps.images.set(),
  };
}

/** Lists the images after each change of them, but not too often. */
async function watchImages(
  options: NodeObserverOptions,
  wakeUp: AutoResetEvent,
  onListed: (images: readonly NodeImage[]) => void,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const listed = await listImages(options, wakeUp);
    if (listed !== undefined) onListed(listed);
    await sleepUnlessAborted(options.clock, MIN_IMAGE_LIST_INTERVAL_MS, signal);
    await wakeUp.wait(Number.POSITIVE_INFINITY, signal);
  }
}

/** Lists the images. Returns undefined and schedules a retry if the runtime cannot list them. */
async function listImages(
  { runtime, log }: NodeObserverOptions,
  wakeUp: AutoResetEvent,
): Promise<readonly NodeImage[] | undefined> {
  try {
    const images = await runtime.listImages({ deadlineMs: REQUEST_TIMEOUT_MS });
    return images.map(toNodeImage).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  } catch (error) {
    log.debug({ err: error }, "cannot list the images of the container runtime");
    wakeUp.set();
    return undefined;
  }
}

/** Sorts the names: a runtime may return them in another order each time, which is not a change. */
function toNodeImage({ id, repoDigests, repoTags, size }: Image): NodeImage {
  return { id, digests: repoDigests.toSorted(), tags: repoTags.toSorted(), sizeBytes: Number(size) };
}
