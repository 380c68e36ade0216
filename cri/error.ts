import type { statusCodes } from "../proto/grpc-status-codes.ts";

export type CriCode = Exclude<(typeof statusCodes)[number], "OK">;

/**
 * A call to the container runtime that failed. Decisions are made by `code`; the message is the runtime's own text and
 * for humans. `verb` is the call as the CRI names it, e.g. "RunPodSandbox".
 */
export class CriError extends Error {
  override readonly name = "CriError";
  readonly code: CriCode;
  readonly verb: string;
  /** The runtime's own text. */
  readonly details: string;

  constructor(code: CriCode, verb: string, message: string, options?: ErrorOptions) {
    super(`${verb}: ${message}`, options);
    this.code = code;
    this.verb = verb;
    this.details = message;
  }
}

/** An error as Go's gRPC words it, which is how users know it: `rpc error: code = NotFound desc = …`. */
export function asRpcError({ code, details }: { readonly code: string; readonly details: string }): string {
  // Of all its codes, Go spells this one otherwise.
  const words = (code === "CANCELLED" ? "CANCELED" : code).toLowerCase().split("_");
  const name = words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
  return `rpc error: code = ${name} desc = ${details}`;
}

/** For the verbs that end something: it is a success when there is nothing to end. Any other error is thrown on. */
export function absentIsFine(error: unknown): void {
  if (!(error instanceof CriError && error.code === "NOT_FOUND")) throw error;
}
