import type { Runtime } from "../../../cri/runtime.ts";
import { type Bell, createBell } from "../../../host/async/auto-reset-event.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Image, StatusResponse } from "../../../proto/cri/gen/api.ts";
import {
  type NodeImage,
  type ObservedMachine,
  type ObservedNode,
  type ObservedRuntime,
  type Supplies,
  silentRuntime,
} from "../../decide/node/observed-node.ts";
import { featuresOf } from "../runtime-features.ts";
import { createSupplyMeter, type SupplySources } from "./eviction-signals.ts";

export interface NodeSources extends Omit<SupplySources, "runtime"> {
  readonly runtime: Pick<Runtime, "version" | "status" | "listImages" | "imageFsInfo">;
  readonly machine: ObservedMachine;
  /** The node's addresses, the primary first. */
  readonly addresses: () => readonly string[];
  readonly clock: Clock;
  /** How long a runtime that is ready is left alone; nothing tells when it ceases to be. */
  readonly askEveryMs: number;
  /** The node is other than it was. */
  readonly changed: () => void;
  /** What the node has left was measured. */
  readonly measured: (supplies: Supplies) => void;
}

/** The node, as far as it can be seen from here. */
export interface NodeObserver {
  now(): Omit<ObservedNode, "pressure">;
  /** Looks once, all of the node but its images. Resolves when all has answered, or has not in time; never rejects. */
  look(deadlineMs?: number): Promise<void>;
  /** Asks the runtime again and again, and for its images, until the signal aborts. Never rejects. */
  follow(signal: AbortSignal): Promise<void>;
  /** The connection to the runtime came or went. */
  doubtRuntime(): void;
  /** An image came or went, or may have. */
  doubtImages(): void;
}

/** A runtime that does not answer within so long is not ready. */
const ANSWER_WITHIN_MS = 10_000;
/** File systems answer in microseconds; one that takes so long is left out. */
const MEASURED_WITHIN_MS = 1_000;
/** A runtime that is not ready is asked again after a tenth of a second, then less and less often, at last as the kubelet does. */
const FIRST_ASK_MS = 100;
const LONGEST_ASK_MS = 5_000;
/** Images are listed at most that often, as by the kubelet. */
const IMAGES_EVERY_MS = 30_000;

export function createNodeObserver(sources: NodeSources): NodeObserver {
  const { clock, machine, addresses, askEveryMs, changed, measured } = sources;
  const meter = createSupplyMeter(sources);
  const bells = { runtime: createBell(clock), images: createBell(clock) };
  let runtime = silentRuntime;
  let images: readonly NodeImage[] | undefined;
  let measuredAt = Number.NEGATIVE_INFINITY;

  async function askRuntime(deadlineMs = ANSWER_WITHIN_MS): Promise<void> {
    const before = asOf(runtime, clock.now());
    runtime = await ask(sources, before, deadlineMs);
    if (!saysTheSame(before, runtime)) changed();
  }

  /** A file system that hangs keeps nobody from asking the runtime, and the other signals from being measured. */
  async function measure(withinMs = MEASURED_WITHIN_MS): Promise<void> {
    measuredAt = clock.now();
    measured(await meter.measure(withinMs));
  }

  async function followRuntime(signal: AbortSignal): Promise<void> {
    let failures = 0;
    while (!signal.aborted) {
      // A runtime that is not well is asked more often; the rest needs no more looks for that.
      if (Math.abs(clock.now() - measuredAt) >= askEveryMs) void measure();
      await askRuntime();
      failures = isWell(runtime) ? 0 : failures + 1;
      const delayMs =
        failures === 0 ? askEveryMs : Math.min(LONGEST_ASK_MS, FIRST_ASK_MS * 2 ** Math.min(failures - 1, 16));
      await bells.runtime.wait(clock.now() + delayMs, signal);
    }
  }

  async function followImages(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const listed = await list(sources, bells.images);
      if (listed !== undefined && JSON.stringify(listed) !== JSON.stringify(images)) {
        images = listed;
        changed();
      }
      await pause(clock, IMAGES_EVERY_MS, signal);
      await bells.images.wait(Number.POSITIVE_INFINITY, signal);
    }
  }

  return {
    now: () => ({ machine, runtime, addresses: addresses(), images, isShuttingDown: false }),
    async look(deadlineMs = ANSWER_WITHIN_MS) {
      await Promise.all([askRuntime(deadlineMs), measure(Math.min(deadlineMs, MEASURED_WITHIN_MS))]);
    },
    follow: async (signal) => void (await Promise.all([followRuntime(signal), followImages(signal)])),
    doubtRuntime() {
      meter.doubtRuntime();
      bells.runtime.ring();
    },
    doubtImages: () => bells.images.ring(),
  };
}

/** A time that no bell can shorten. */
function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return createBell(clock).wait(clock.now() + ms, signal);
}

/** What the runtime says now. While it says nothing, what it said last stands, but that it is ready. */
async function ask(
  { runtime, clock, log }: NodeSources,
  before: ObservedRuntime,
  deadlineMs: number,
): Promise<ObservedRuntime> {
  const options = { deadlineMs };
  try {
    // After an outage another runtime, or a newer one, may answer.
    const isKnown = before.isReady && before.name !== "";
    const [status, named] = await Promise.all([
      runtime.status(options),
      isKnown ? undefined : runtime.version(options),
    ]);
    const { name, version } = before;
    const told = named === undefined ? { name, version } : { name: named.runtimeName, version: named.runtimeVersion };
    return { ...told, ...answerOf(status, before.readyAt, clock.now()) };
  } catch (error) {
    log.debug({ err: error }, "the container runtime does not say how it is");
    return { ...before, isReady: false };
  }
}

function answerOf(
  answer: StatusResponse,
  readyBefore: number | undefined,
  now: number,
): Omit<ObservedRuntime, "name" | "version"> {
  const { status } = answer;
  const conditions = (status?.conditions ?? []).map(({ type, status: isTrue, reason, message }) => ({
    type,
    status: isTrue,
    reason,
    message,
  }));
  const isReady = isTrueOf(conditions, "RuntimeReady");
  return {
    conditions,
    ...featuresOf(answer),
    readyAt: isReady ? now : readyBefore,
    isReady,
  };
}

function isTrueOf(conditions: ObservedRuntime["conditions"], type: string): boolean {
  return conditions?.find((condition) => condition.type === type)?.status === true;
}

/** A runtime that is ready, but whose network is not yet, is asked as often as one that is not. */
function isWell({ isReady, conditions }: ObservedRuntime): boolean {
  return isReady && isTrueOf(conditions, "NetworkReady");
}

/** Where the clock was set back, how long a runtime is silent is counted from now on: an hour that comes twice counts for nothing. */
function asOf({ readyAt, ...runtime }: ObservedRuntime, now: number): ObservedRuntime {
  return { ...runtime, readyAt: readyAt === undefined ? undefined : Math.min(readyAt, now) };
}

/** That it was heard again is no news. */
function saysTheSame(
  { readyAt: one, ...before }: ObservedRuntime,
  { readyAt: other, ...after }: ObservedRuntime,
): boolean {
  return (one === undefined) === (other === undefined) && JSON.stringify(before) === JSON.stringify(after);
}

/** Undefined where the runtime cannot tell; then it is asked again. */
async function list({ runtime, log }: NodeSources, bell: Bell): Promise<readonly NodeImage[] | undefined> {
  try {
    const images = await runtime.listImages({ deadlineMs: ANSWER_WITHIN_MS });
    return images.map(toNodeImage).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  } catch (error) {
    log.debug({ err: error }, "the container runtime does not list its images");
    bell.ring();
    return undefined;
  }
}

/** In an order of their own: a runtime may give the same names in another order each time, which is no news. */
function toNodeImage({ id, repoDigests, repoTags, size }: Image): NodeImage {
  return { id, digests: repoDigests.toSorted(), tags: repoTags.toSorted(), sizeBytes: Number(size) };
}
