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

/** Asks the agent on this socket. Rejects with the `CniError` of the agent, and with the signal's reason when that aborts. */
export async function askAgent(socket: string, call: DelegateCall, signal: AbortSignal): Promise<AgentAnswer> {
  let status: number;
  let text: string;
  try {
    const body = encodeDelegateCall(call);
    const response = await fetch("http://berth/call", { unix: socket, method: "POST", body, signal, keepalive: false });
    status = response.status;
    text = await response.text();
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    return isAbsent(error) ? { kind: "away" } : { kind: "lost", reason: messageOf(error) };
  }
  const value = parse(text);
  if (status === 200 && isObject(value)) return { kind: "answered", output: value };
  const failure = parseErrorObject(value);
  if (failure !== undefined) throw failure;
  return { kind: "lost", reason: `the answer has the status ${status} and is no error object` };
}

/** ENOENT: no socket. ECONNREFUSED: the socket of an agent that was killed. */
const isAbsent = (error: unknown) =>
  error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ECONNREFUSED");

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The caller reports the status of what is not JSON.
    return undefined;
  }
}
