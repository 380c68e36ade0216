import { KubeError, type KubeErrorCode } from "../../kube/error.ts";
import type { FakeKube, KubeVerb } from "./kube.ts";

const verbs: readonly KubeVerb[] = ["get", "create", "replace", "patch", "delete"];

/** Every request that is not a list or a watch, with the time since the test began: `10000 ms patch nodes/a/status`. */
export function requestsOf(kube: FakeKube, clock: { readonly elapsedMs: number }): { told(): readonly string[] } {
  const journal: string[] = [];
  for (const verb of verbs) {
    const before = kube.before[verb];
    kube.before[verb] = async (about) => {
      journal.push(`${clock.elapsedMs} ms ${verb} ${about}`);
      await before?.(about);
    };
  }
  return { told: () => journal.splice(0) };
}

export function kubeError(code: KubeErrorCode, status?: number, retryAfterMs?: number): KubeError {
  return new KubeError(code, `the server says ${code}`, { status, retryAfterMs });
}
