import { type Clock, sleep } from "../../host/clock.ts";
import { messageOf } from "../../host/error-message.ts";
import { isObject } from "../../proto/is-object.ts";
import { type DelegateCall, encodeDelegateCall } from "./delegate-call.ts";
import { parseErrorObject } from "./error-object.ts";
import type { CallOutput } from "./execute-call.ts";

/**
 * What became of a call on the agent's socket. `away`: no agent has got it. `lost`: an agent has got it and ended before it
 * answered, so that a part of it may be done.
 */
export type AgentAnswer =
  | { readonly kind: "answered"; readonly output: CallOutput }
  | { readonly kind: "away" }
  | { readonly kind: "lost"; readonly reason: string };

/** How long to wait for a place in the queue of an agent that accepts no connections, at first and at most. */
const FIRST_WAIT_MS = 10;
const MAX_WAIT_MS = 200;

/** Asks the agent on this socket. Rejects with the `CniError` of the agent, and with the signal's reason when that aborts. */
export async function askAgent(
  socket: string,
  call: DelegateCall,
  signal: AbortSignal,
  clock: Clock,
): Promise<AgentAnswer> {
  let status: number;
  let text: string;
  try {
    const response = await send(socket, encodeDelegateCall(call), signal, clock);
    status = response.status;
    text = await response.text();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    const isAbsent = hasCode(error, "ENOENT") || hasCode(error, "ECONNREFUSED");
    return isAbsent ? { kind: "away" } : { kind: "lost", reason: messageOf(error) };
  }
  const value = parse(text);
  if (status === 200 && isObject(value)) return { kind: "answered", output: value };
  const failure = parseErrorObject(value);
  if (failure !== undefined) throw failure;
  return { kind: "lost", reason: `the answer has the status ${status} and is no error object` };
}

/**
 * Sends the call. A stopped agent accepts no connections; while its queue of them is full, connect(2) fails with EAGAIN, and no event
 * says when there is room again. Nothing has been sent then, so it tries again until the signal aborts.
 */
async function send(socket: string, body: string, signal: AbortSignal, clock: Clock): Promise<Response> {
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(MAX_WAIT_MS, waitMs * 2)) {
    try {
      return await fetch("http://berth/call", { unix: socket, method: "POST", body, signal, keepalive: false });
    } catch (error) {
      if (!hasCode(error, "EAGAIN")) throw error;
    }
    await sleep(clock, waitMs, signal);
  }
}

/** ENOENT: no socket. ECONNREFUSED: the socket of an agent that was killed. EAGAIN: that of an agent whose queue is full. */
const hasCode = (error: unknown, code: "ENOENT" | "ECONNREFUSED" | "EAGAIN") =>
  error instanceof Error && "code" in error && error.code === code;

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The caller reports the status of what is not JSON.
    return undefined;
  }
}
