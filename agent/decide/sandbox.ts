import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import type { ObservedPod, ObservedSandbox } from "./observed.ts";

/** Whether the pod's sandbox will do. */
export type SandboxNeed =
  | { readonly kind: "ready"; readonly sandbox: ObservedSandbox }
  | { readonly kind: "create"; readonly attempt: number; readonly why: string };

/** A pod lives in its newest sandbox, and only in that one; the four reasons to replace it are the kubelet's. */
export function sandboxNeed(pod: Pod, { sandboxes }: ObservedPod): SandboxNeed {
  const [newest] = sandboxes;
  if (newest === undefined) return { kind: "create", attempt: 0, why: "the pod has none" };
  const attempt = newest.attempt + 1;
  if (!newest.ready) return { kind: "create", attempt, why: "the last one is not ready" };
  if (sandboxes.filter(({ ready }) => ready).length > 1)
    return { kind: "create", attempt, why: "the pod has more than one" };
  const wantsHostNetwork = pod.spec.hostNetwork === true;
  if (newest.hostNetwork !== wantsHostNetwork)
    return { kind: "create", attempt, why: "the last one has the wrong network namespace" };
  if (!wantsHostNetwork && newest.ips.length === 0)
    return { kind: "create", attempt, why: "the last one has no address" };
  return { kind: "ready", sandbox: newest };
}
