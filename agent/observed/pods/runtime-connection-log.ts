import type { RuntimeEvent, RuntimeEventSource } from "../../../cri/runtime.ts";
import { createLogOnce } from "../../../host/async/log-once.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";

type Outage = Extract<RuntimeEvent, { kind: "disconnected" }>;

/** Logs the state of the connection to the container runtime. */
export interface RuntimeConnectionLog {
  connected(source: RuntimeEventSource): void;
  /** The connection was lost, or the reason has changed. */
  disconnected(outage: Outage): void;
  /** Logs nothing from now on. */
  stop(): void;
}

/** A connection that lasts this long is stable. An outage that lasts this long is always logged. */
const STABLE_MS = 10_000;

/**
 * A connection that flaps, for instance because the stream contains garbage, must not fill the log. So the same failure
 * soon after a connect is logged only if the outage lasts.
 */
export function createRuntimeConnectionLog(clock: Clock, log: Log): RuntimeConnectionLog {
  const loggedErrors = createLogOnce();
  let hasConnected = false;
  let lastLogged: "here" | "away" | undefined;
  /** Undefined while the runtime is connected. */
  let latestOutage: Outage | undefined;
  let cancel = () => {};

  function schedule(work: () => void): void {
    cancel();
    cancel = clock.wakeAt(clock.now() + STABLE_MS, work);
  }

  function logOutage({ socket, error }: Outage): void {
    lastLogged = "away";
    log.warn({ socket, err: error }, "the container runtime is away; pods keep running; reconnecting");
  }

  return {
    connected(source) {
      latestOutage = undefined;
      schedule(loggedErrors.clear);
      const message = hasConnected ? "the container runtime is back" : "following the container runtime";
      log[lastLogged === "here" ? "debug" : "info"]({ source }, message);
      hasConnected = true;
      lastLogged = "here";
    },
    disconnected(outage) {
      const isNew = latestOutage === undefined;
      latestOutage = outage;
      // The reason of the same outage has changed: a line that is due shows the latest one.
      if (!isNew) return;
      cancel();
      if (lastLogged === "away") return;
      if (loggedErrors.shouldLog(outage.error.code)) logOutage(outage);
      else schedule(() => logOutage(latestOutage ?? outage));
    },
    stop: () => cancel(),
  };
}
