import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { createFailureLog } from "../../../host/async/failure-log.ts";
import type { Clock, Instant } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient, Patch } from "../../../kube/client.ts";
import { hasCode, KubeError } from "../../../kube/error.ts";
import { nodes } from "../../../kube/resource.ts";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import {
  afterNodeCreated,
  afterPatchAccepted,
  decideNodeReport,
  emptyNodeReportMemory,
  initialNode,
  type NodeEvent,
  type NodeReport,
  type NodeReportMemory,
} from "../../decide/node/node-report.ts";
import type { NodeSettings } from "../../decide/node/node-settings.ts";
import type { ObservedNode } from "../../decide/node/observed-node.ts";
import { decodeNode } from "../decode-response.ts";
import { loggedReasonOf, retryAfterMs } from "../retry.ts";
import { type RegistrationOptions, registerNode } from "./registration.ts";

/** The last known Node object; `desired/node-object.ts` watches it. */
export interface KnownNodeObject {
  latest(): Node | undefined | "unknown";
  observed(node: Node): void;
  notFound(): void;
}

export interface NodeStatusOptions {
  readonly kube: Pick<KubeClient, "create" | "get" | "patch">;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly settings: NodeSettings;
  /** The configuration's `registerNode`. */
  readonly registerNode: boolean;
  readonly observed: () => ObservedNode;
  readonly known: KnownNodeObject;
  readonly record: (event: NodeEvent) => void;
  /** Called after each accepted report. */
  readonly onReported: () => void;
  readonly onRegistration?: RegistrationOptions["onRegistration"];
  readonly deadlineMs: number;
}

export interface NodeStatusState {
  readonly reportedAt: Instant | undefined;
  /** Why the last attempt failed; undefined after a success. */
  readonly error: unknown;
  /** The time of that failure. */
  readonly failedAt: Instant | undefined;
}

export interface NodeStatusReporter {
  /** Registers the node and reports its status until the signal aborts. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** The node or its Node object may have changed. Cheap: several wake-ups become one sync. */
  wake(): void;
  /** Retries a failed request at once, because the API server is reachable again. */
  retryNow(): void;
  state(): NodeStatusState;
}

/**
 * Keeps the status of the Node object current. Each sync compares the object with the observed node and sends at most
 * one request for the difference; then it sleeps until something changes or the next report is due.
 *
 *              ┌─────────────────── the object was deleted ───────────────────┐
 *              ▼                                                              │
 *     no object ───► registered ───► sync ───► report ───► accepted ───► wait for a change or the due time
 *                                     ▲          │                            │
 *                                     └── failed: wait with growing delay ◄───┘
 */
export function createNodeStatusReporter(options: NodeStatusOptions): NodeStatusReporter {
  const { clock, log, random, settings, known, record, onReported } = options;
  const wakeUp = createAutoResetEvent(clock);
  const retry = createAutoResetEvent(clock);
  const failureLog = createFailureLog(log, "the node's status cannot be reported; trying again", loggedReasonOf);
  let memory: NodeReportMemory = emptyNodeReportMemory;
  let state: NodeStatusState = { reportedAt: undefined, error: undefined, failedAt: undefined };
  let failures = 0;

  function succeed(decided: Pick<NodeReport, "memory" | "events">): void {
    memory = decided.memory;
    for (const event of decided.events) record(event);
  }

  function onAccepted(node: Node): void {
    known.observed(node);
    failures = 0;
    failureLog.clear();
    state = { reportedAt: clock.now(), error: undefined, failedAt: undefined };
    onReported();
  }

  function recordError(error: unknown): void {
    state = { ...state, error, failedAt: error === undefined ? undefined : clock.now() };
  }

  async function register(signal: AbortSignal): Promise<void> {
    const nodeToCreate = () => initialNode(options.observed(), settings, clock.now());
    const { nodeName } = settings;
    const registration: RegistrationOptions = { ...options, nodeName, nodeToCreate, onFailure: recordError, retry };
    const { node, isCreated } = await registerNode(registration, signal);
    recordError(undefined);
    if (!isCreated) return known.observed(node);
    succeed(afterNodeCreated(node, settings, clock.now(), random()));
    onAccepted(node);
  }

  /** Sends one report and returns the memory after it; undefined if the request failed. */
  async function report(node: Node, decided: NodeReport, signal: AbortSignal): Promise<NodeReportMemory | undefined> {
    if (decided.patch === undefined) return decided.memory;
    try {
      const answer = decodeNode(await send(options, node, decided.patch, signal));
      onAccepted(answer);
      return afterPatchAccepted(decided, answer);
    } catch (error) {
      if (!signal.aborted) await fail(error, signal);
      return undefined;
    }
  }

  async function fail(error: unknown, signal: AbortSignal): Promise<void> {
    failures += 1;
    failureLog.report(error);
    recordError(error);
    if (hasCode(error, "NOT_FOUND")) known.notFound();
    if (hasCode(error, "CONFLICT")) await reread(options, signal);
    await retry.wait(clock.now() + retryAfterMs(failures, error), signal);
  }

  async function sync(signal: AbortSignal): Promise<void> {
    const node = known.latest();
    // A create is the quickest way to find out whether the object exists.
    if (node === undefined || node === "unknown") {
      if (options.registerNode) return await register(signal);
      if (node === undefined) recordError(missingNodeError(options, state.error));
      return void (await wakeUp.wait(Number.POSITIVE_INFINITY, signal));
    }
    const decided = decideNodeReport(node, options.observed(), memory, settings, clock.now(), random());
    const after = await report(node, decided, signal);
    if (after === undefined) return;
    succeed({ ...decided, memory: after });
    await wakeUp.wait(decided.lookAgainAt, signal);
  }

  return {
    async run(signal) {
      while (!signal.aborted) {
        // Only registration rejects, and only because of the abort.
        await sync(signal).catch((error: unknown) => signal.aborted || Promise.reject(error));
      }
    },
    wake: () => wakeUp.set(),
    retryNow: () => retry.set(),
    state: () => state,
  };
}

/** The error while the Node is missing and `registerNode` is false. Logged once until another error replaces it. */
function missingNodeError({ log, settings: { nodeName: node } }: NodeStatusOptions, lastError: unknown): KubeError {
  const what = `the cluster has no Node ${node}, and registerNode is false`;
  const error = new KubeError("NOT_FOUND", `${what}: create it, or set registerNode to true`);
  if (!(lastError instanceof KubeError) || lastError.message !== error.message) log.warn({ node }, error.message);
  return error;
}

/** Patches the status of this object; the uid guards against a Node that has replaced it. */
function send(
  { kube, settings, deadlineMs }: NodeStatusOptions,
  { metadata: { uid } }: Node,
  body: Patch["body"],
  signal: AbortSignal,
): Promise<Node> {
  const patch: Patch = { type: "strategic", subresource: "status", body, ...(uid !== undefined && { uid }) };
  return kube.patch(nodes, settings.nodeName, patch, { priorityLevel: "heartbeat", deadlineMs, signal });
}

/** Reads the Node after a conflict: another object has replaced the known one. */
async function reread({ kube, known, settings, deadlineMs }: NodeStatusOptions, signal: AbortSignal): Promise<void> {
  try {
    known.observed(await kube.get(nodes, settings.nodeName, { priorityLevel: "heartbeat", deadlineMs, signal }));
  } catch (error) {
    if (hasCode(error, "NOT_FOUND")) known.notFound();
    // Other errors: the next attempt meets the conflict again and reads again.
  }
}
