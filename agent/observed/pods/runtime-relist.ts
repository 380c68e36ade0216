import type { Runtime } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { ObservedImages } from "../images.ts";
import type { ContainerEvent } from "./cri-events.ts";
import type { ObservedPods } from "./pod-cache.ts";
import { createListStory } from "./relist-log.ts";
import { createConnectionStory } from "./runtime-connection-log.ts";

export interface FollowSettings {
  readonly runtime: Pick<Runtime, "events">;
  readonly pods: ObservedPods;
  readonly images: ObservedImages;
  readonly clock: Clock;
  readonly log: Log;
  /** Everything was listed, for the first time or after the connection was lost. */
  readonly complete: () => void;
}

/** A connection to the runtime, from its beginning to its loss. */
interface Connection {
  readonly begunAt: number;
  readonly auditEveryMs: number;
  /** True once everything was listed since it stands. */
  isListed: boolean;
}

/** The audit finds what events have missed. Events come from the runtime itself, so it finds nothing, day after day. */
const AUDIT_MS = 300_000;
/**
 * The event of an exit may have come right before the connection stood, and the runtime's own status, which is behind its events, may show
 * life at the first list and change without another one. So everything is listed once more so long after the beginning.
 */
const SETTLING_MS = [1_000, 10_000] as const;
/** Without any source of events the runtime is listed every second, as the kubelet does. */
const POLL_MS = 1_000;
const RETRY_MS = 500;
/** How long the event of a container may be ahead of the answer to the call that made it: asked after 0.1 s to 1.6 s. */
const FIRST_PLACE_MS = 100;
const LAST_PLACE_MS = 1_600;

/**
 * Follows the runtime: a list when the connection comes up, events from then on, and an audit now and then. Resolves when the
 * signal aborts and never rejects; what goes wrong is logged once per outage.
 */
export async function followRuntime(settings: FollowSettings, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { runtime, pods, images, clock, log } = settings;
  const story = createConnectionStory(clock, log);
  const auditing = createAuditing(settings);

  /** Most events of unknown ids are echoes of calls of ours whose answer is still under way. */
  function hear(event: ContainerEvent, patienceMs = FIRST_PLACE_MS): void {
    const whose = pods.hear(event);
    if (whose === "known" || event.change === "deleted" || event.change === "stopped") return;
    if (whose === "new" || patienceMs > LAST_PLACE_MS) auditing.now();
    else clock.wakeAt(clock.now() + patienceMs, () => hear(event, 2 * patienceMs));
  }

  function end(): void {
    story.end();
    auditing.end();
  }

  signal.addEventListener("abort", end, { once: true });
  await runtime.events((event) => {
    switch (event.kind) {
      case "connected":
        story.connected(event.source);
        images.doubt();
        auditing.begin({
          begunAt: clock.now(),
          auditEveryMs: event.source === "none" ? POLL_MS : AUDIT_MS,
          isListed: false,
        });
        return;
      case "disconnected":
        story.disconnected(event);
        auditing.lose(event.error);
        pods.lose(event);
        return;
      case "container":
        hear(event);
        return;
    }
  }, signal);
}

/**
 * Lists everything when a connection begins, and again and again while it lasts. One audit is under way at a time: whoever asks
 * meanwhile shares the next one, since what has been listed already may be older than the reason to ask.
 */
function createAuditing({ pods, clock, log, complete }: FollowSettings) {
  const story = createListStory(clock, log);
  let connection: Connection | undefined;
  let isWanted = false;
  let isUnderWay = false;
  let cancel = () => {};
  story.owed();

  async function audit(): Promise<void> {
    isWanted = true;
    if (isUnderWay) return;
    isUnderWay = true;
    while (isWanted && connection !== undefined) {
      isWanted = false;
      cancel();
      const began = connection;
      const failure = await pods.audit().then(
        () => undefined,
        (error: unknown) => ({ error }),
      );
      // What was listed before an outage says nothing after it.
      if (connection !== began) pods.lose();
      else settle(began, failure);
    }
    isUnderWay = false;
  }

  function settle(began: Connection, failure: { readonly error: unknown } | undefined): void {
    if (failure === undefined) story.succeeded();
    else story.failed(failure.error);
    if (failure === undefined && !began.isListed) complete();
    began.isListed ||= failure === undefined;
    cancel = clock.wakeAt(clock.now() + (failure === undefined ? untilNext(began) : RETRY_MS), () => void audit());
  }

  function untilNext({ begunAt, auditEveryMs }: Connection): number {
    const age = clock.now() - begunAt;
    const settling = SETTLING_MS.map((at) => at - age).find((left) => left > 0);
    return Math.min(settling ?? auditEveryMs, auditEveryMs);
  }

  function stop(): void {
    connection = undefined;
    cancel();
  }

  return {
    begin(next: Connection): void {
      connection = next;
      void audit();
    },
    now: () => void audit(),
    lose(why: unknown): void {
      stop();
      story.owed(why);
    },
    end(): void {
      stop();
      story.end();
    },
  };
}
