import type { Bell } from "../../../host/async/auto-reset-event.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import { nodes } from "../../../kube/resource.ts";
import { readTold } from "../../../proto/kubernetes/decode/lenient-decode.ts";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import { describeFieldError } from "../../../proto/kubernetes/validation/field-error.ts";
import { createTrouble, hasCode, retryAfterMs } from "../retry.ts";

export interface RegistrationParts {
  readonly kube: Pick<Kube, "create" | "get">;
  readonly clock: Clock;
  readonly log: Log;
  readonly nodeName: string;
  /** The Node to create, as of now. */
  readonly wanted: () => Node;
  /** Called after each attempt that failed. */
  readonly failed: (error: unknown) => void;
  /** Ends the wait before the next attempt: the API server is back. */
  readonly retry: Pick<Bell, "wait">;
  readonly deadlineMs: number;
}

/** The node as the API server has it; `created` says whether it came from us. */
export interface Registered {
  readonly node: Node;
  readonly isCreated: boolean;
}

/**
 * Creates the Node, or finds it where it is there already: a server may forbid to create what it allows to have. Tries for ever, since
 * time may heal whatever stands in the way, and says each reason once. Rejects when the signal aborts, with its reason.
 */
export async function registerNode(parts: RegistrationParts, signal: AbortSignal): Promise<Registered> {
  const { clock, log, nodeName: node } = parts;
  const trouble = createTrouble(log, "the node cannot be registered yet; trying again", { node });
  for (let failures = 1; ; failures += 1) {
    try {
      const registered = await attempt(parts, signal);
      log.info({ node }, registered.isCreated ? "the node is registered" : "the node was registered before");
      return registered;
    } catch (error) {
      signal.throwIfAborted();
      trouble.met(error);
      parts.failed(error);
      await parts.retry.wait(clock.now() + retryAfterMs(failures, error), signal);
      signal.throwIfAborted();
    }
  }
}

/** Throws `KubeError` for what is no Node as we know them, which is asked for again like what did not come. */
export function readNode(answer: Node): Node {
  const { object, problem } = readTold("Node", answer);
  if (problem === undefined) return object;
  throw new KubeError("NOT_JSON", `the API server's Node cannot be read: ${describeFieldError(problem)}`);
}

async function attempt(parts: RegistrationParts, signal: AbortSignal): Promise<Registered> {
  const { kube, nodeName, wanted, deadlineMs } = parts;
  const options = { lane: "heartbeat", deadlineMs, signal } as const;
  try {
    return { node: readNode(await kube.create(nodes, wanted(), options)), isCreated: true };
  } catch (refusal) {
    if (!hasCode(refusal, "ALREADY_EXISTS", "FORBIDDEN")) throw refusal;
    try {
      return { node: readNode(await kube.get(nodes, nodeName, options)), isCreated: false };
    } catch (error) {
      // Why it may not be created says more than that it is not there.
      throw hasCode(refusal, "FORBIDDEN") && hasCode(error, "NOT_FOUND", "FORBIDDEN") ? refusal : error;
    }
  }
}
