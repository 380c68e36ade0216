import type { Clock } from "../../host/clock.ts";

/**
 * The watchdog sends a ping after 15 s of silence, and reports the connection dead after 15 s more: it detects a dead
 * connection within 30 s.
 */
const MAX_SILENCE_MS = 15_000;
const ANSWER_TIMEOUT_MS = 15_000;

/** Detects dead connections by HTTP/2 pings. */
export interface PingWatchdog {
  /** To be called when an answer starts to be expected: from now on silence counts. */
  start(): void;
  /** To be called for everything that the other end sends, answers to pings included. */
  onActivity(): void;
  stop(): void;
}

export interface PingWatchdogOptions {
  readonly clock: Clock;
  /** Sends a ping; its answer is reported by `onActivity`. */
  readonly ping: () => void;
  /** Whether an answer is expected. If not, no pings are sent. */
  readonly isExpecting: () => boolean;
  /** Called once, when nothing has arrived within 15 s of a ping. */
  readonly onDead: () => void;
}

/**
 * Detects that the other end of a connection is gone without a FIN or RST.
 *
 *     asleep ──start──► listening ──15 s of silence──► pinged ──15 s of silence──► dead
 *       ▲                 │   ▲                          │
 *       └─ not expecting ─┘   └──────── activity ────────┘
 */
export function createPingWatchdog({ clock, ping, isExpecting, onDead }: PingWatchdogOptions): PingWatchdog {
  let activeAt = clock.now();
  let wasActive = false;
  let state: "asleep" | "listening" | "pinged" | "stopped" = "asleep";
  let cancel = () => {
    // No timer runs yet.
  };

  function waitForSilence(): void {
    // If the wall clock was set back, the silence must not look shorter than it is.
    const waitMs = Math.min(MAX_SILENCE_MS, Math.max(0, activeAt + MAX_SILENCE_MS - clock.now()));
    if (waitMs === 0) {
      sendPing();
      return;
    }
    state = "listening";
    wasActive = false;
    cancel = clock.wakeAt(clock.now() + waitMs, () => {
      if (!isExpecting()) state = "asleep";
      else if (wasActive) waitForSilence();
      else sendPing();
    });
  }

  function sendPing(): void {
    state = "pinged";
    cancel = clock.wakeAt(clock.now() + ANSWER_TIMEOUT_MS, () => {
      state = "stopped";
      onDead();
    });
    ping();
  }

  return {
    start() {
      if (state === "asleep") waitForSilence();
    },
    onActivity() {
      activeAt = clock.now();
      wasActive = true;
      if (state !== "pinged") return;
      cancel();
      if (isExpecting()) waitForSilence();
      else state = "asleep";
    },
    stop() {
      state = "stopped";
      cancel();
    },
  };
}
