import { KubeError } from "../../../kube/error.ts";
import { readToldPod } from "../../../proto/kubernetes/decode/api-pod.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { describeFieldError } from "../../../proto/kubernetes/validation/field-error.ts";

/** Throws `KubeError` for what is no Pod as we know them: it counts like an answer that did not come. */
export function readPod(answer: Pod): Pod {
  const { object, problem } = readToldPod(answer);
  if (problem === undefined) return object;
  throw new KubeError("NOT_JSON", `the API server's Pod cannot be read: ${describeFieldError(problem)}`);
}
