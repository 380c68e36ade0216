import type { Clock, Instant } from "../host/clock.ts";
import type { Kube } from "../kube/client.ts";
import type { ConnectionState } from "../kube/connection.ts";
import type { KubeError } from "../kube/error.ts";
import { formatTime } from "../proto/kubernetes/time.ts";
import type { NodeState } from "./node.ts";
import type { ClusterStatus, ConnectionStatus, Upkeep } from "./serve/agent-status.ts";

export interface WatchState {
  readonly heardAt: Instant | undefined;
  /** Why what was heard may be out of date. */
  readonly error: KubeError | undefined;
}

export interface ClusterScene {
  readonly server: URL;
  readonly connection: ConnectionState;
  readonly node: NodeState;
  readonly watch: WatchState;
}

/** The state of the rooms that face the cluster, as `berth status` says it. */
export function clusterStatus({ server, connection, node, watch }: ClusterScene): ClusterStatus {
  return {
    server: server.host,
    connection: connectionStatus(connection),
    lease: upkeep(node.lease.renewedAt, node.lease.error),
    nodeStatus: upkeep(node.status.reportedAt, node.status.error),
    watch: upkeep(watch.heardAt, watch.error),
  };
}

/** The same API server, which notes when and how whatever is followed through it was last heard. */
export function withWatchState(kube: Kube, clock: Clock): { readonly kube: Kube; readonly watch: () => WatchState } {
  let state: WatchState = { heardAt: undefined, error: undefined };
  return {
    watch: () => state,
    kube: {
      ...kube,
      follow(resource, selector, listener, signal) {
        const noting: typeof listener = {
          ...listener,
          heard() {
            state = { heardAt: clock.now(), error: undefined };
            listener.heard?.();
          },
          away(error) {
            state = { ...state, error };
            listener.away(error);
          },
          back() {
            state = { ...state, error: undefined };
            listener.back();
          },
        };
        return kube.follow(resource, selector, noting, signal);
      },
    },
  };
}

function connectionStatus(state: ConnectionState): ConnectionStatus {
  switch (state.kind) {
    case "never connected":
      return { state: "connecting" };
    case "connected":
      return { state: "connected", since: formatTime(state.since) };
    case "away":
      return { state: "away", since: formatTime(state.since), message: state.why.message };
  }
}

function upkeep(last: Instant | undefined, error: unknown): Upkeep {
  return {
    ...(last !== undefined && { last: formatTime(last) }),
    ...(error !== undefined && { error: error instanceof Error ? error.message : String(error) }),
  };
}
