import type { grpcStatusCodes } from "../proto/grpc-status-codes.ts";

export type CriCode = Exclude<(typeof grpcStatusCodes)[number], "OK">;

/**
 * A failed call to the container runtime. Callers decide by `code`; the message is the runtime's own text, for people.
 * `verb` is the CRI method, e.g. "RunPodSandbox".
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

/** The error in the format of Go's gRPC, which kubelet users know: `rpc error: code = NotFound desc = …`. */
export function formatRpcError({ code, details }: { readonly code: string; readonly details: string }): string {
  // Go spells this code with one L.
  const words = (code === "CANCELLED" ? "CANCELED" : code).toLowerCase().split("_");
  const name = words.map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join("");
  return `rpc error: code = ${name} desc = ${details}`;
}

/** For methods that stop or remove: NOT_FOUND is success; any other error is rethrown. */
export function ignoreNotFound(error: unknown): void {
  if (!(error instanceof CriError && error.code === "NOT_FOUND")) throw error;
}
