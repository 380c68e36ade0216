import { CriError, formatRpcError } from "../../../cri/error.ts";
import { ApiError } from "../api/api-error.ts";
import { NO_SNIFF } from "../api/api-response.ts";

/**
 * Throws the error of a call to the runtime as an `ApiError` with the kubelet's text and an HTTP status by the gRPC
 * code. Throws other errors as they are.
 */
export function throwAsApiError(error: unknown): never {
  if (!(error instanceof CriError)) throw error;
  const statuses: Readonly<Record<string, number>> = { NOT_FOUND: 404, RESOURCE_EXHAUSTED: 429 };
  throw new ApiError(statuses[error.code] ?? 500, formatRpcError(error), { cause: error });
}

/** As `throwAsApiError`, where the kubelet answers 500 whatever the code. */
export function throwAsServerError(error: unknown): never {
  throw error instanceof CriError ? new ApiError(500, formatRpcError(error), { cause: error }) : error;
}

/** An error of the proxy, which the kubelet writes by Go's `http.Error`. */
export function proxyError(text: string, options?: ErrorOptions): ApiError {
  return new ApiError(500, `${text}\n`, { ...options, headers: NO_SNIFF });
}
