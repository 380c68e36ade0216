import { createEventSource, type EventSource } from "../../host/async/event-source.ts";
import type { Clock } from "../../host/clock.ts";

/** When the agent's own network of pods is compared with the sandboxes of the runtime. */
export interface NetworkAuditTimes {
  /** The runtime was listed, and the starts that followed are over, or a minute has passed. */
  readonly networkAuditDue: Pick<EventSource, "subscribe">;
  /** An action for a pod, such as RunPodSandbox, begins or has ended. */
  onActionStarted(): void;
  onActionFinished(): void;
  /** No action has ended for some seconds. */
  onIdle(): void;
  stop(): void;
}

interface NetworkAuditTimesOptions {
  readonly clock: Clock;
  /** The runtime was listed: at the start, and after each outage. */
  readonly runtimeListed: Pick<EventSource, "subscribe">;
}

/** On a node that is never idle, since its pods start and end all the time. */
const MAX_WAIT_MS = 60_000;

/**
 * No ADD of a network runs during its GC, and a plugin may take long for GC. So the audit follows a list of the runtime only when
 * the starts that the list has allowed are over, and no action is under way:
 *
 *     listed ── starts, deletions ── idle ──► audit
 */
export function createNetworkAuditTimes({ clock, runtimeListed }: NetworkAuditTimesOptions): NetworkAuditTimes {
  const networkAuditDue = createEventSource();
  let cancel: (() => void) | undefined;
  let actions = 0;

  function emit(): void {
    cancel?.();
    cancel = undefined;
    networkAuditDue.emit();
  }

  const unsubscribe = runtimeListed.subscribe(() => {
    cancel ??= clock.wakeAt(clock.now() + MAX_WAIT_MS, emit);
  });
  return {
    networkAuditDue,
    onActionStarted() {
      actions++;
    },
    onActionFinished() {
      actions--;
    },
    onIdle() {
      // The end of an action that is under way leads to the next call.
      if (cancel !== undefined && actions === 0) emit();
    },
    stop() {
      unsubscribe();
      cancel?.();
      cancel = undefined;
    },
  };
}
