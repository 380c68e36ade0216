import type { Clock } from "../../../host/clock.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";
import type { NodeReport, Refusal } from "../../decide/node/local-node-report.ts";
import { createListeners } from "./subscribers.ts";

/** The latest word on what is no pod's own: manifests that are refused, and the container runtime. */
export interface NodeStory {
  /** All that is refused now. */
  refused(refused: readonly Refusal[]): void;
  /** The runtime cannot be reached, or not any more. */
  runtimeAway(why: string): void;
  /** Everything it has was listed. */
  runtimeReady(): void;
  report(): NodeReport;
  /** Calls back after anything has changed; the function it returns ends that. */
  subscribe(changed: () => void): () => void;
}

export function createNodeStory(clock: Clock): NodeStory {
  const listeners = createListeners();
  const since = () => formatTime(clock.now());
  let node: NodeReport = { refused: [], runtime: { state: "connecting", since: since() } };

  function become(next: Partial<NodeReport>): void {
    const before = JSON.stringify(node);
    node = { ...node, ...next };
    if (JSON.stringify(node) !== before) listeners.tell();
  }

  return {
    refused: (refused) => become({ refused }),
    runtimeAway(message) {
      const { runtime } = node;
      // A connection that is made and lost again before anything could be listed is the same outage.
      become({ runtime: { state: "away", since: runtime.state === "away" ? runtime.since : since(), message } });
    },
    runtimeReady: () => become({ runtime: { state: "ready" } }),
    report: () => node,
    subscribe: listeners.subscribe,
  };
}
