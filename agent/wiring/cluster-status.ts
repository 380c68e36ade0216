import type { Clock, Instant } from "../../host/clock.ts";
import type { Kube } from "../../kube/client.ts";
import type { KubeError } from "../../kube/error.ts";
import { pods } from "../../kube/resource.ts";
import type { ConnectionState } from "../../kube/transport/connection.ts";
import { formatTime } from "../../proto/kubernetes/time.ts";
import type { ClusterStatus, ConnectionStatus, LastError, Upkeep } from "../serve/local/agent-status.ts";
import type { NodeState } from "./local-node.ts";

export interface WatchState {
  readonly heardAt: Instant | undefined;
  /** Why what was heard may be out of date. */
  readonly error: KubeError | undefined;
  /** When that was. */
  readonly failedAt: Instant | undefined;
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
    lease: upkeep(node.lease.renewedAt, node.lease),
    nodeStatus: upkeep(node.status.reportedAt, node.status),
    watch: upkeep(watch.heardAt, watch),
  };
}

/** The same API server, which notes when and how it last told of the pods that are followed through it. */
export function withWatchState(kube: Kube, clock: Clock): { readonly kube: Kube; readonly watch: () => WatchState } {
  let state: WatchState = { heardAt: undefined, error: undefined, failedAt: undefined };
  return {
    watch: () => state,
    kube: {
      ...kube,
      follow(resource, selector, listener, signal) {
        if (resource.plural !== pods().plural) return kube.follow(resource, selector, listener, signal);
        const noting: typeof listener = {
          ...listener,
          heard() {
            state = { heardAt: clock.now(), error: undefined, failedAt: undefined };
            listener.heard?.();
          },
          away(error) {
            state = { ...state, error, failedAt: clock.now() };
            listener.away(error);
          },
          back() {
            state = { ...state, error: undefined, failedAt: undefined };
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
      return {
        state: "connected",
        since: formatTime(state.since),
        ...(state.lastFailure && { lastError: lastError(state.lastFailure.why, state.lastFailure.at) }),
      };
    case "away":
      return {
        state: "away",
        since: formatTime(state.since),
        lastError: lastError(state.lastFailure.why, state.lastFailure.at),
      };
  }
}

interface Trouble {
  readonly error: unknown;
  readonly failedAt: Instant | undefined;
}

function upkeep(last: Instant | undefined, { error, failedAt }: Trouble): Upkeep {
  return {
    ...(last !== undefined && { last: formatTime(last) }),
    ...(error !== undefined && failedAt !== undefined && { error: lastError(error, failedAt) }),
  };
}

function lastError(error: unknown, at: Instant): LastError {
  return { at: formatTime(at), message: error instanceof Error ? error.message : String(error) };
}
