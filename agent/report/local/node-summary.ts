import { createEventSource } from "../../../host/async/event-source.ts";
import type { Clock } from "../../../host/clock.ts";
import { isJsonEqual } from "../../../proto/json-equal.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import type { LocalNodeReport, RejectedManifest, RuntimeState } from "../../decide/node/local-node-report.ts";
import { networkWordsOf, runtimeProblemOf } from "../../decide/node/node-conditions.ts";
import type { ObservedNode } from "../../decide/node/observed-node.ts";

/** The node part of `berth status`: rejected manifests and the state of the container runtime. */
export interface NodeSummary {
  /** Replaces the list of rejected manifests. */
  setRejected(rejected: readonly RejectedManifest[]): void;
  /** The runtime is unreachable. */
  onRuntimeAway(message: string): void;
  /** The runtime was listed completely. */
  onRuntimeReady(): void;
  /** The runtime's status was read, or the runtime did not respond. */
  onRuntimeObserved(observed: Pick<ObservedNode, "runtime" | "ownCgroups">): void;
  report(): LocalNodeReport;
  /** Calls `changed` after each change; returns the function that unsubscribes. */
  subscribe(changed: () => void): () => void;
}

export function createNodeSummary(clock: Clock): NodeSummary {
  const changes = createEventSource();
  const since = () => formatTime(clock.now());
  /** What the connection shows: a runtime whose processes are frozen stays connected. */
  let connection: RuntimeState = { state: "connecting", since: since() };
  /** What the runtime's status shows. */
  let notReady: Extract<RuntimeState, { readonly state: "notReady" }> | undefined;
  let networkProblem: string | undefined;
  let current: LocalNodeReport = { refused: [], runtime: connection };

  function update(next: Partial<LocalNodeReport>): void {
    const before = current;
    current = { ...current, ...next };
    if (!isJsonEqual(current, before)) changes.emit();
  }

  const updateRuntime = () => {
    const isConnected = connection.state === "ready";
    update({
      runtime: isConnected && notReady !== undefined ? notReady : connection,
      networkProblem: isConnected ? networkProblem : undefined,
    });
  };

  return {
    setRejected: (rejected) => update({ refused: rejected }),
    onRuntimeAway(message) {
      // A connection that breaks before the first complete list continues the same outage.
      connection = { state: "away", since: connection.state === "away" ? connection.since : since(), message };
      updateRuntime();
    },
    onRuntimeReady() {
      connection = { state: "ready" };
      updateRuntime();
    },
    onRuntimeObserved(observed) {
      const message = runtimeProblemOf(observed);
      notReady = message === undefined ? undefined : { state: "notReady", since: notReady?.since ?? since(), message };
      networkProblem = observed.runtime.noResponse === undefined ? networkWordsOf(observed.runtime) : undefined;
      updateRuntime();
    },
    report: () => current,
    subscribe: changes.subscribe,
  };
}
