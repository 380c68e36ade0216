import { createEventSource } from "../../../host/async/event-source.ts";
import type { Clock } from "../../../host/clock.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import type { LocalNodeReport, RejectedManifest } from "../../decide/node/local-node-report.ts";

/** The node part of `berth status`: rejected manifests and the state of the container runtime. */
export interface NodeSummary {
  /** Replaces the list of rejected manifests. */
  setRejected(rejected: readonly RejectedManifest[]): void;
  /** The runtime is unreachable. */
  onRuntimeAway(message: string): void;
  /** The runtime was listed completely. */
  onRuntimeReady(): void;
  report(): LocalNodeReport;
  /** Calls `changed` after each change; returns the function that unsubscribes. */
  subscribe(changed: () => void): () => void;
}

export function createNodeSummary(clock: Clock): NodeSummary {
  const changes = createEventSource();
  const since = () => formatTime(clock.now());
  let current: LocalNodeReport = { refused: [], runtime: { state: "connecting", since: since() } };

  function update(next: Partial<LocalNodeReport>): void {
    const before = JSON.stringify(current);
    current = { ...current, ...next };
    if (JSON.stringify(current) !== before) changes.emit();
  }

  return {
    setRejected: (rejected) => update({ refused: rejected }),
    onRuntimeAway(message) {
      const { runtime } = current;
      // A connection that breaks before the first complete list continues the same outage.
      update({ runtime: { state: "away", since: runtime.state === "away" ? runtime.since : since(), message } });
    },
    onRuntimeReady: () => update({ runtime: { state: "ready" } }),
    report: () => current,
    subscribe: changes.subscribe,
  };
}
