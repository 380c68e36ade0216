import type { AutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { createFailureLog } from "../../../host/async/failure-log.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasCode } from "../../../kube/error.ts";
import type { RequestOptions } from "../../../kube/request-options.ts";
import { nodes } from "../../../kube/resource.ts";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { decodeNode } from "../decode-response.ts";
import { loggedReasonOf, retryAfterMs } from "../retry.ts";

export interface RegistrationOptions {
  readonly kube: Pick<KubeClient, "create" | "get">;
  readonly clock: Clock;
  readonly log: Log;
  readonly nodeName: string;
  /** The Node object to create. */
  readonly nodeToCreate: () => Node;
  /** Called before the Node object is to be created, and when this agent has created it. */
  readonly onRegistration?: ((step: "attempted" | "created") => void) | undefined;
  /** Called after each failed attempt. */
  readonly onFailure: (error: unknown) => void;
  /** Ends the wait before the next attempt when the API server is reachable again. */
  readonly retry: Pick<AutoResetEvent, "wait">;
  readonly deadlineMs: number;
}

/** The Node in the API, and whether this agent created it. */
export interface Registration {
  readonly node: Node;
  readonly isCreated: boolean;
}

/**
 * Creates the Node object, or reads the existing one: RBAC may forbid to create a Node that already exists. Retries for
 * ever, because every cause may pass, and logs each reason once. Rejects with the signal's reason when that aborts.
 */
export async function registerNode(registration: RegistrationOptions, signal: AbortSignal): Promise<Registration> {
  const { clock, log, nodeName: node } = registration;
  const failureLog = createFailureLog(log, "the node cannot be registered yet; trying again", loggedReasonOf);
  registration.onRegistration?.("attempted");
  for (let failures = 1; ; failures += 1) {
    try {
      const registered = await attempt(registration, signal);
      if (registered.isCreated) registration.onRegistration?.("created");
      log.info({ node }, registered.isCreated ? "the node is registered" : "the node was registered before");
      return registered;
    } catch (error) {
      signal.throwIfAborted();
      failureLog.report(error, { node });
      registration.onFailure(error);
      await registration.retry.wait(clock.now() + retryAfterMs(failures, error), signal);
      signal.throwIfAborted();
    }
  }
}

async function attempt(registration: RegistrationOptions, signal: AbortSignal): Promise<Registration> {
  const { kube, nodeName, nodeToCreate, deadlineMs } = registration;
  const options: RequestOptions = { priorityLevel: "heartbeat", deadlineMs, signal };
  try {
    return { node: decodeNode(await kube.create(nodes, nodeToCreate(), options)), isCreated: true };
  } catch (rejection) {
    if (!hasCode(rejection, "ALREADY_EXISTS", "FORBIDDEN")) throw rejection;
    try {
      return { node: decodeNode(await kube.get(nodes, nodeName, options)), isCreated: false };
    } catch (error) {
      // The error of the create explains more than a missing Node.
      throw hasCode(rejection, "FORBIDDEN") && hasCode(error, "NOT_FOUND", "FORBIDDEN") ? rejection : error;
    }
  }
}
