import { KubeError, type KubeErrorCode } from "../../kube/error.ts";
import type { FakeKube, KubeVerb } from "./kube.ts";

const verbs: readonly KubeVerb[] = ["get", "create", "replace", "patch", "delete"];

/**
 * Records every request except lists and watches, with the time since the start of the test: `10000 ms patch
 * nodes/a/status`.
 */
export function recordRequests(kube: FakeKube, clock: { readonly elapsedMs: number }): { take(): readonly string[] } {
  const requests: string[] = [];
  for (const verb of verbs) {
    const before = kube.before[verb];
    kube.before[verb] = async (about) => {
      requests.push(`${clock.elapsedMs} ms ${verb} ${about}`);
      await before?.(about);
    };
  }
  return { take: () => requests.splice(0) };
}

export function kubeError(code: KubeErrorCode, status?: number, retryAfterMs?: number): KubeError {
  return new KubeError(code, `the server answered ${code}`, { status, retryAfterMs });
}
