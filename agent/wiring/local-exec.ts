import type { Files } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { EXEC_SOCKET } from "../config/local-socket.ts";
import { ROOT_DIR_HINT, toStartError } from "../preflight/start-error.ts";
import { type ExecServer, serveExec } from "../serve/local/exec-server.ts";
import { notRunningText } from "../serve/local/unknown-container.ts";
import { type KnownPods, unknownPodText } from "../serve/local/unknown-pod.ts";
import { createSessionLimit, MAX_SESSIONS } from "../serve/streaming/session-limit.ts";
import { execRoute, type StreamingDeps } from "../serve/streaming/streaming-routes.ts";
import type { Agent } from "./agent.ts";
import { createPodLookup } from "./api/pod-lookup.ts";

export interface LocalExecAdapters extends Pick<StreamingDeps, "runtime" | "clock"> {
  /** Rooted at the root directory. */
  readonly root: Files;
  readonly log: Log;
  readonly knownPods: () => KnownPods;
}

/** Serves `berth exec`. Its sessions may be idle for any time. Throws `StartError`. */
export async function serveLocalExec(
  { root, runtime, clock, log, knownPods }: LocalExecAdapters,
  agent: Pick<Agent, "desired" | "podReports" | "releaseMemorySoon">,
): Promise<ExecServer> {
  const findPod = createPodLookup(agent).named;
  // Clients of the API do not take the sessions of an administrator on the node.
  const sessionLimit = createSessionLimit(MAX_SESSIONS, agent.releaseMemorySoon);
  const deps = { runtime, findPod, sessionLimit, clock, idleTimeoutMs: 0, translatesWebSockets: false };
  const exec = execRoute("/exec/{namespace}/{pod}/{container}", deps, notRunningText).upgrade;
  const whyUnknown = (namespace: string, pod: string) => unknownPodText(knownPods(), namespace, pod);
  return await serveExec({ path: root.path(EXEC_SOCKET), findPod, whyUnknown, exec, log }).catch(
    toStartError("cannot serve berth exec", ROOT_DIR_HINT),
  );
}
