import { createBell } from "../../../host/async/auto-reset-event.ts";
import type { Clock, Instant } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Kube, Patch } from "../../../kube/client.ts";
import { KubeError } from "../../../kube/error.ts";
import { nodes } from "../../../kube/resource.ts";
import type { Node } from "../../../proto/kubernetes/gen/types.ts";
import {
  answeredNode,
  createdNode,
  decideNode,
  emptyNodeMemory,
  initialNode,
  type NodeDecision,
  type NodeEvent,
  type NodeMemory,
} from "../../decide/node/node-report.ts";
import type { NodeSettings } from "../../decide/node/node-settings.ts";
import type { ObservedNode } from "../../decide/node/observed-node.ts";
import { createTrouble, hasCode, retryAfterMs } from "../retry.ts";
import { readNode, registerNode } from "./registration.ts";

/** What is known of the Node object; `agent/desired/node-object.ts` follows it. */
export interface KnownNode {
  latest(): Node | undefined | "unknown";
  heard(node: Node): void;
  missed(): void;
}

export interface NodeReportParts {
  readonly kube: Pick<Kube, "create" | "get" | "patch">;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly settings: NodeSettings;
  /** `registerNode`: without it, somebody else creates the Node. */
  readonly mayRegister: boolean;
  readonly observed: () => ObservedNode;
  readonly known: KnownNode;
  readonly record: (event: NodeEvent) => void;
  /** The API server has taken a report. */
  readonly reported: () => void;
  readonly deadlineMs: number;
}

export interface NodeReportState {
  readonly reportedAt: Instant | undefined;
  /** Why the last attempt failed; undefined where it did not. */
  readonly error: unknown;
  /** When that was. */
  readonly failedAt: Instant | undefined;
}

export interface NodeReport {
  /** Registers the node, and keeps its status, until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** The node, or its object, may be other than it was. Cheap: many at once are one look. */
  wake(): void;
  /** What failed is tried again at once: the API server is back. */
  hurry(): void;
  state(): NodeReportState;
}

/**
 * Keeps the Node object true. One look after the other: what is there, what should be there, and at most one request for the
 * difference; then nothing until something changes or the next report is due.
 *
 *              ┌──────────────────── the object is gone ────────────────────┐
 *              ▼                                                            │
 *     no object ───► registered ───► look ───► report ───► taken ───► wait for news, or the time
 *                                     ▲          │                          │
 *                                     └── failed: wait, longer each time ◄──┘
 */
export function createNodeReport(parts: NodeReportParts): NodeReport {
  const { clock, log, random, settings, known, record, reported } = parts;
  const news = createBell(clock);
  const retry = createBell(clock);
  const trouble = createTrouble(log, "the node's status cannot be reported; trying again");
  let memory: NodeMemory = emptyNodeMemory;
  let state: NodeReportState = { reportedAt: undefined, error: undefined, failedAt: undefined };
  let failures = 0;

  function succeed(decided: Pick<NodeDecision, "memory" | "events">): void {
    memory = decided.memory;
    for (const event of decided.events) record(event);
  }

  function taken(node: Node): void {
    known.heard(node);
    failures = 0;
    trouble.over();
    state = { reportedAt: clock.now(), error: undefined, failedAt: undefined };
    reported();
  }

  function note(error: unknown): void {
    state = { ...state, error, failedAt: error === undefined ? undefined : clock.now() };
  }

  async function register(signal: AbortSignal): Promise<void> {
    const wanted = () => initialNode(parts.observed(), settings, clock.now());
    const registration = { ...parts, nodeName: settings.nodeName, wanted, failed: note, retry };
    const { node, isCreated } = await registerNode(registration, signal);
    note(undefined);
    if (!isCreated) return known.heard(node);
    succeed(createdNode(node, settings, clock.now(), random()));
    taken(node);
  }

  /** Sends one report, and gives the memory after it; undefined where it was not taken. */
  async function report(node: Node, decided: NodeDecision, signal: AbortSignal): Promise<NodeMemory | undefined> {
    if (decided.patch === undefined) return decided.memory;
    try {
      const answer = readNode(await send(parts, node, decided.patch, signal));
      taken(answer);
      return answeredNode(decided, answer);
    } catch (error) {
      if (!signal.aborted) await fail(error, signal);
      return undefined;
    }
  }

  async function fail(error: unknown, signal: AbortSignal): Promise<void> {
    failures += 1;
    trouble.met(error);
    note(error);
    if (hasCode(error, "NOT_FOUND")) known.missed();
    if (hasCode(error, "CONFLICT")) await readAnew(parts, signal);
    await retry.wait(clock.now() + retryAfterMs(failures, error), signal);
  }

  async function look(signal: AbortSignal): Promise<void> {
    const node = known.latest();
    // To create it is the quickest way to learn whether it is there.
    if (node === undefined || node === "unknown") {
      if (parts.mayRegister) return await register(signal);
      if (node === undefined) note(sayMissing(parts, state.error));
      return await news.wait(Number.POSITIVE_INFINITY, signal);
    }
    const decided = decideNode(node, parts.observed(), memory, settings, clock.now(), random());
    const after = await report(node, decided, signal);
    if (after === undefined) return;
    succeed({ ...decided, memory: after });
    await news.wait(decided.lookAgainAt, signal);
  }

  return {
    async run(signal) {
      while (!signal.aborted) {
        await look(signal).catch((error: unknown) => {
          // Only registration rejects, and only when the signal aborts.
          if (!signal.aborted) throw error;
        });
      }
    },
    wake: () => news.ring(),
    hurry: () => retry.ring(),
    state: () => state,
  };
}

/** Somebody else has to create the Node. Said once, until another error takes its place. */
function sayMissing({ log, settings: { nodeName: node } }: NodeReportParts, said: unknown): KubeError {
  const what = `the cluster has no Node ${node}, and registerNode is false`;
  const error = new KubeError("NOT_FOUND", `${what}: create it, or set registerNode to true`);
  if (!(said instanceof KubeError) || said.message !== error.message) log.warn({ node }, error.message);
  return error;
}

/** The status is of this very object, and of none that has taken its place. */
function send(
  { kube, settings, deadlineMs }: NodeReportParts,
  { metadata: { uid } }: Node,
  body: Patch["body"],
  signal: AbortSignal,
): Promise<Node> {
  const patch: Patch = { type: "strategic", subresource: "status", body, ...(uid !== undefined && { uid }) };
  return kube.patch(nodes, settings.nodeName, patch, { lane: "heartbeat", deadlineMs, signal });
}

/** Another object has taken the place of the one that is known. */
async function readAnew({ kube, known, settings, deadlineMs }: NodeReportParts, signal: AbortSignal): Promise<void> {
  try {
    known.heard(await kube.get(nodes, settings.nodeName, { lane: "heartbeat", deadlineMs, signal }));
  } catch (error) {
    if (hasCode(error, "NOT_FOUND")) known.missed();
    // Anything else: the next attempt finds the conflict again, and reads again.
  }
}
