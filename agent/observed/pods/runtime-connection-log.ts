import type { EventSource, RuntimeEvent } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";

/** Tells the log what becomes of the connection to the runtime. */
export interface ConnectionStory {
  connected(source: EventSource): void;
  disconnected(event: Extract<RuntimeEvent, { kind: "disconnected" }>): void;
  /** Nothing is told any more. */
  end(): void;
}

/** A connection that lived so long was a good one, and an outage that lasts so long is worth a line in any case. */
const SETTLED_MS = 10_000;

/**
 * Each thing is told once: a connection that comes and goes, for instance because garbage flows on it, must not fill the log. So
 * the same failure again, soon after the connection was made, is told only when it lasts.
 */
export function createConnectionStory(clock: Clock, log: Log): ConnectionStory {
  const complainedOf = new Set<string>();
  let hasConnected = false;
  let told: "here" | "away" | undefined;
  let cancel = () => {};

  function later(what: () => void): void {
    cancel();
    cancel = clock.wakeAt(clock.now() + SETTLED_MS, what);
  }

  return {
    connected(source) {
      later(() => complainedOf.clear());
      const sentence = hasConnected ? "the container runtime is back" : "following the container runtime";
      log[told === "here" ? "debug" : "info"]({ source }, sentence);
      hasConnected = true;
      told = "here";
    },
    disconnected({ error, socket }) {
      const tell = () => {
        told = "away";
        log.warn({ socket, err: error }, "the container runtime is away; pods keep running, and it is waited for");
      };
      cancel();
      if (told === "away") return;
      if (complainedOf.has(error.code)) later(tell);
      else tell();
      complainedOf.add(error.code);
    },
    end: () => cancel(),
  };
}
