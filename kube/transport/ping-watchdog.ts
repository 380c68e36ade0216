import type { Clock } from "../../host/clock.ts";

/** Silence for so long is asked about, and so long may the answer take: together how long a dead connection goes unnoticed. */
const SILENCE_MS = 15_000;
const ANSWER_WITHIN_MS = 15_000;

export interface Watchdog {
  /** Something begins to be expected: from now on silence means something. */
  wake(): void;
  /** A sign of life came. */
  heard(): void;
  stop(): void;
}

export interface WatchdogOptions {
  readonly clock: Clock;
  /** Asks the other end for a sign of life; its answer is told by `heard`. */
  readonly ping: () => void;
  /** Whether anything is expected of the other end. If not, it is left alone. */
  readonly isExpecting: () => boolean;
  /** Called once: nothing was heard since a ping that should have been answered by now. */
  readonly dead: () => void;
}

/**
 * Notices that the other end of a connection is gone although nobody said so.
 *
 *     asleep ──wake──► listening ──15 s of silence──► asked ──15 s of silence──► dead
 *       ▲                │   ▲                         │
 *       └─ not expecting ┘   └───────── heard ─────────┘
 */
export function createWatchdog({ clock, ping, isExpecting, dead }: WatchdogOptions): Watchdog {
  let heardAt = clock.now();
  let hasHeard = false;
  let state: "asleep" | "listening" | "asked" | "stopped" = "asleep";
  let cancel = () => {
    // No timer runs yet.
  };

  function listen(): void {
    // A clock that was set back must not make the silence look shorter than one wait.
    const waitMs = Math.min(SILENCE_MS, Math.max(0, heardAt + SILENCE_MS - clock.now()));
    if (waitMs === 0) {
      ask();
      return;
    }
    state = "listening";
    hasHeard = false;
    cancel = clock.wakeAt(clock.now() + waitMs, () => {
      if (!isExpecting()) state = "asleep";
      else if (hasHeard) listen();
      else ask();
    });
  }

  function ask(): void {
    state = "asked";
    cancel = clock.wakeAt(clock.now() + ANSWER_WITHIN_MS, () => {
      state = "stopped";
      dead();
    });
    ping();
  }

  return {
    wake() {
      if (state === "asleep") listen();
    },
    heard() {
      heardAt = clock.now();
      hasHeard = true;
      if (state !== "asked") return;
      cancel();
      if (isExpecting()) listen();
      else state = "asleep";
    },
    stop() {
      state = "stopped";
      cancel();
    },
  };
}
