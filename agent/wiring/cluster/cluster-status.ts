import type { Clock, Instant } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import type { KubeClient } from "../../../kube/client.ts";
import type { KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { ConnectionState } from "../../../kube/transport/connection.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import type { ClusterStatus, ConnectionStatus, LastError, PeriodicTask } from "../../serve/local/agent-status.ts";
import type { NodeState } from "./node-sync.ts";

/** The health of the watch of this node's pods. */
export interface WatchState {
  /** When the API server last sent anything. */
  readonly receivedAt: Instant | undefined;
  /** Why the pods may be out of date. */
  readonly error: KubeError | undefined;
  /** When `error` occurred. */
  readonly failedAt: Instant | undefined;
}

export interface ClusterStatusInput {
  readonly server: URL;
  readonly connection: ConnectionState;
  readonly node: NodeState;
  readonly watch: WatchState;
}

/** The state of the node's connection to its cluster, for `berth status`. */
export function clusterStatus({ server, connection, node, watch }: ClusterStatusInput): ClusterStatus {
  return {
    server: server.host,
    connection: connectionStatus(connection),
    lease: toPeriodicTask(node.lease.renewedAt, node.lease),
    nodeStatus: toPeriodicTask(node.status.reportedAt, node.status),
    watch: toPeriodicTask(watch.receivedAt, watch),
  };
}

/** The same client, which records the health of the watch of pods that runs through it. */
export function withWatchHealth(
  kube: KubeClient,
  clock: Clock,
): { readonly kube: KubeClient; readonly watch: () => WatchState } {
  let state: WatchState = { receivedAt: undefined, error: undefined, failedAt: undefined };
  return {
    watch: () => state,
    kube: {
      ...kube,
      listAndWatch(resource, selector, listener, signal) {
        if (resource.plural !== pods().plural) return kube.listAndWatch(resource, selector, listener, signal);
        const recording: typeof listener = {
          ...listener,
          onSynced() {
            state = { receivedAt: clock.now(), error: undefined, failedAt: undefined };
            listener.onSynced?.();
          },
          onOutage(error) {
            state = { ...state, error, failedAt: clock.now() };
            listener.onOutage(error);
          },
          onRecovered() {
            state = { ...state, error: undefined, failedAt: undefined };
            listener.onRecovered();
          },
        };
        return kube.listAndWatch(resource, selector, recording, signal);
      },
    },
  };
}

function connectionStatus(state: ConnectionState): ConnectionStatus {
  switch (state.kind) {
    case "never connected":
      return { state: "connecting" };
    case "connected":
      return {
        state: "connected",
        since: formatTime(state.since),
        ...(state.lastFailure && { lastError: lastError(state.lastFailure.error, state.lastFailure.at) }),
      };
    case "away":
      return {
        state: "away",
        since: formatTime(state.since),
        lastError: lastError(state.lastFailure.error, state.lastFailure.at),
      };
  }
}

interface LastFailure {
  readonly error: unknown;
  readonly failedAt: Instant | undefined;
}

function toPeriodicTask(last: Instant | undefined, { error, failedAt }: LastFailure): PeriodicTask {
  return {
    ...(last !== undefined && { last: formatTime(last) }),
    ...(error !== undefined && failedAt !== undefined && { error: lastError(error, failedAt) }),
  };
}

function lastError(error: unknown, at: Instant): LastError {
  return { at: formatTime(at), message: messageOf(error) };
}
