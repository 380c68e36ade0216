import type { KubeletMetrics } from "./kubelet-metrics.ts";

/** Epoch milliseconds. */
export interface NodeStartTimes {
  readonly bootAt: number;
  readonly agentAt: number;
}

/** Measures how long a node takes from its boot until it is Ready (the kubelet's node startup latency tracker). */
export interface NodeStartRecorder {
  /** The Node object is to be created. */
  onRegistering(): void;
  /** This agent has created it: a node that was registered before is not measured. */
  onRegistered(): void;
  onReady(): void;
}

/** `times` is called once, when the node has been registered. */
export function createNodeStartRecorder(
  { kubelet }: Pick<KubeletMetrics, "kubelet">,
  clock: { readonly now: () => number },
  times: () => NodeStartTimes,
): NodeStartRecorder {
  let attemptedAt: number | undefined;
  let registered: (NodeStartTimes & { readonly at: number }) | undefined;
  let isDone = false;
  return {
    onRegistering() {
      attemptedAt ??= clock.now();
    },
    onRegistered() {
      if (attemptedAt === undefined || registered !== undefined) return;
      registered = { ...times(), at: clock.now() };
      const { bootAt, agentAt, at } = registered;
      kubelet.set("kubelet_node_startup_pre_kubelet_duration_seconds", (agentAt - bootAt) / 1000);
      kubelet.set("kubelet_node_startup_pre_registration_duration_seconds", (attemptedAt - agentAt) / 1000);
      kubelet.set("kubelet_node_startup_registration_duration_seconds", (at - attemptedAt) / 1000);
    },
    onReady() {
      if (registered === undefined || isDone) return;
      isDone = true;
      const now = clock.now();
      kubelet.set("kubelet_node_startup_post_registration_duration_seconds", (now - registered.at) / 1000);
      kubelet.set("kubelet_node_startup_duration_seconds", (now - registered.bootAt) / 1000);
    },
  };
}
