import type { Runtime, RuntimeEvent } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import { createConnectionStory } from "./connection-story.ts";
import type { ContainerEvent } from "./events.ts";
import type { ObservedImages } from "./images.ts";
import type { ObservedPods } from "./pods.ts";

export interface FollowSettings {
  readonly runtime: Pick<Runtime, "events">;
  readonly pods: ObservedPods;
  readonly images: ObservedImages;
  readonly clock: Clock;
  readonly log: Log;
  /** Everything was listed, for the first time or after the connection was lost. */
  readonly complete: () => void;
}

/** The audit finds what events have missed. Events come from the runtime itself, so it finds nothing, day after day. */
const AUDIT_MS = 300_000;
/** Without any source of events the runtime is listed every second, as the kubelet does. */
const POLL_MS = 1_000;
const RETRY_MS = 500;
/** How long the event of a container may be ahead of the answer to the call that made it. */
const PLACE_MS = 100;

/**
 * Follows the runtime: a list when the connection comes up, events from then on, and an audit now and then. Resolves when the
 * signal aborts and never rejects; what goes wrong is logged once per outage.
 */
export async function followRuntime(settings: FollowSettings, signal: AbortSignal): Promise<void> {
  const { runtime, pods, images, clock, log, complete } = settings;
  const story = createConnectionStory(clock, log);
  let cancelAudit: (() => void) | undefined;
  let isConnected = false;

  function auditAfter(delayMs: number, nextMs: number): void {
    cancelAudit?.();
    if (!signal.aborted) cancelAudit = clock.wakeAt(clock.now() + delayMs, () => void audit(nextMs));
  }

  async function audit(nextMs: number, whenDone?: () => void): Promise<void> {
    try {
      await pods.audit();
      whenDone?.();
      auditAfter(nextMs, nextMs);
    } catch (error) {
      if (!isConnected || signal.aborted) return;
      log.warn({ err: error }, "the container runtime could not be listed; trying again");
      cancelAudit?.();
      cancelAudit = clock.wakeAt(clock.now() + RETRY_MS, () => void audit(nextMs, whenDone));
    }
  }

  function connected(source: Extract<RuntimeEvent, { kind: "connected" }>["source"]): void {
    isConnected = true;
    images.doubt();
    story.connected(source);
    void audit(source === "none" ? POLL_MS : AUDIT_MS, complete);
  }

  function disconnected(event: Extract<RuntimeEvent, { kind: "disconnected" }>): void {
    isConnected = false;
    cancelAudit?.();
    pods.lose();
    story.disconnected(event);
  }

  function hear(event: ContainerEvent): void {
    // Most events of unknown ids are echoes of calls of ours whose answer is still under way.
    if (pods.hear(event)) return;
    clock.wakeAt(clock.now() + PLACE_MS, () => {
      if (!pods.hear(event) && event.change !== "deleted" && event.change !== "stopped") auditAfter(0, AUDIT_MS);
    });
  }

  function end(): void {
    story.end();
    cancelAudit?.();
  }

  signal.addEventListener("abort", end, { once: true });
  await runtime.events((event) => {
    switch (event.kind) {
      case "connected":
        connected(event.source);
        return;
      case "disconnected":
        disconnected(event);
        return;
      case "container":
        hear(event);
        return;
    }
  }, signal);
}
