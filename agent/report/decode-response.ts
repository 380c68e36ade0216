import { KubeError } from "../../kube/error.ts";
import { decodeApiPod } from "../../proto/kubernetes/decode/api-pod.ts";
import { decodeLenient } from "../../proto/kubernetes/decode/lenient-decode.ts";
import type { Node, Pod } from "../../proto/kubernetes/gen/types.ts";
import { describeFieldError } from "../../proto/kubernetes/validation/field-error.ts";

/**
 * Decodes a Pod of the API server. Throws `KubeError` if it is invalid, which callers treat like a missing response.
 */
export function decodePod(response: Pod): Pod {
  const { object, problem } = decodeApiPod(response);
  if (problem === undefined) return object;
  throw new KubeError("NOT_JSON", `the API server's Pod cannot be read: ${describeFieldError(problem)}`);
}

/** Decodes a Node, likewise. */
export function decodeNode(response: Node): Node {
  const { object, problem } = decodeLenient("Node", response);
  if (problem === undefined) return object;
  throw new KubeError("NOT_JSON", `the API server's Node cannot be read: ${describeFieldError(problem)}`);
}
