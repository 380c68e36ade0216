// The event stream of the fake runtime, and how long an exit is not shown in the statuses.
import { CriError } from "../../cri/error.ts";
import type {
  ContainerChange,
  EventExit,
  RuntimeEvent,
  RuntimeEventListener,
  RuntimeEventSource,
} from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { FakeContainer, FakeSandbox } from "./runtime-objects.ts";

/** One change of a sandbox or container, by a call, by its program or by the test. */
export interface RuntimeChange {
  readonly at: number;
  readonly kind: "sandbox" | "container";
  readonly change: Exclude<ContainerChange, "unknown">;
  readonly id: string;
  /** The pod's uid, with `/name` for a container. Of one role only one instance may run at a time. */
  readonly role: string;
  /** How long the status lags behind this exit. */
  readonly lagMs?: number;
}

export interface FakeRuntimeEventsOptions {
  readonly clock: Clock;
  readonly source: RuntimeEventSource;
  /**
   * How long the next exit is not shown in the statuses. containerd's own event arrives at once, a CRI event only
   * together with the status. A call that stops something returns only then, too, unless it begins in the second half
   * of this time, when the task is deleted: then it returns at once.
   */
  readonly exitLagMs: () => number;
}

const disconnected = (reason: string) =>
  ({
    kind: "disconnected",
    error: new CriError("UNAVAILABLE", "events", reason),
    socket: "/run/fake.sock",
  }) as const;

/** Records the changes of the fake runtime, and sends their events to its listeners. */
export class FakeRuntimeEvents {
  readonly timeline: RuntimeChange[] = [];
  /** While true, changes cause no events. */
  losesEvents = false;

  readonly #clock: Clock;
  readonly #source: RuntimeEventSource;
  readonly #exitLagMs: () => number;
  readonly #listeners = new Set<RuntimeEventListener>();
  #isDown = false;

  constructor({ clock, source, exitLagMs }: FakeRuntimeEventsOptions) {
    this.#clock = clock;
    this.#source = source;
    this.#exitLagMs = exitLagMs;
  }

  follow(listener: RuntimeEventListener, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    this.#listeners.add(listener);
    listener(this.#isDown ? disconnected("the runtime is down") : { kind: "connected", source: this.#source });
    return new Promise((resolve) => {
      const end = () => {
        this.#listeners.delete(listener);
        resolve();
      };
      signal.addEventListener("abort", end, { once: true });
    });
  }

  disconnect(reason: string): void {
    this.#isDown = true;
    this.#publish(disconnected(reason));
  }

  connect(): void {
    this.#isDown = false;
    this.#publish({ kind: "connected", source: this.#source });
  }

  changed(target: FakeSandbox | FakeContainer, change: RuntimeChange["change"]): void {
    this.record(target, change);
    this.#report(target, change);
  }

  /** Records a change that causes no event. */
  record(target: FakeSandbox | FakeContainer, change: RuntimeChange["change"], lagMs?: number): void {
    const isContainer = "sandbox" in target;
    const uid = (isContainer ? target.sandbox : target).config.metadata?.uid ?? "";
    const role = isContainer ? `${uid}/${target.config.metadata?.name}` : uid;
    const at = this.#clock.now();
    const kind = isContainer ? "container" : "sandbox";
    this.timeline.push({ at, kind, change, id: target.id, role, ...(lagMs !== undefined && { lagMs }) });
  }

  /**
   * The process of a sandbox or container has exited; `setState` shows it in the status. containerd's events come first:
   * that of the exit at once, and that of the deletion of its task, after half of the lag.
   */
  stopped(target: FakeSandbox | FakeContainer, exit: EventExit, setState: () => void): void {
    const lagMs = this.#exitLagMs();
    this.record(target, "stopped", lagMs);
    const isAhead = this.#source === "containerd-events";
    const show = () => {
      target.unshownExit = undefined;
      setState();
      if (!isAhead) this.#report(target, "stopped");
    };
    if (lagMs <= 0) {
      show();
      if (isAhead) this.#report(target, "stopped", exit);
      return;
    }
    const { promise: shown, resolve } = Promise.withResolvers<void>();
    const showOnce = () => {
      if (target.unshownExit === undefined) return;
      show();
      resolve();
    };
    const unshownExit = { show: showOnce, shown, hasTask: true };
    target.unshownExit = unshownExit;
    const { now, wakeAt } = this.#clock;
    wakeAt(now() + lagMs, showOnce);
    if (isAhead) this.#report(target, "stopped", exit);
    wakeAt(now() + Math.floor(lagMs / 2), () => {
      unshownExit.hasTask = false;
      if (isAhead && target.unshownExit === unshownExit) this.#report(target, "stopped");
    });
  }

  /** Sends the event of a change. containerd's own event of an exit carries it. */
  #report(target: FakeSandbox | FakeContainer, change: RuntimeChange["change"], exit?: EventExit): void {
    if (this.losesEvents || this.#isDown || this.#source === "none") return;
    const sandbox = "sandbox" in target ? target.sandbox : target;
    const uid = sandbox.config.metadata?.uid;
    const isKnown = this.#source === "cri-events";
    // The agent does not subscribe to creations in containerd's own event service.
    if (change === "created" && !isKnown) return;
    this.#publish({
      kind: "container",
      change,
      containerId: target.id,
      isSandbox: isKnown ? target === sandbox : undefined,
      ...(exit && { exit }),
      ...(isKnown ? { podSandboxId: sandbox.id } : {}),
      ...(isKnown && uid !== undefined ? { podUid: uid as PodUid } : {}),
    });
  }

  #publish(event: RuntimeEvent): void {
    for (const listener of [...this.#listeners]) listener(event);
  }
}
