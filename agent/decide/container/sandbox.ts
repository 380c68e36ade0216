import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Backoff, delayOf, dueAfter } from "../pod/backoff.ts";
import type { ObservedPod, ObservedSandbox } from "../pod/observed.ts";

/** Whether the pod's sandbox will do. */
export type SandboxNeed =
  | { readonly kind: "ready"; readonly sandbox: ObservedSandbox }
  | {
      readonly kind: "create";
      readonly attempt: number;
      readonly why: string;
      /** To be written on it. */
      readonly crashes: number;
      /** Not before this time; epoch milliseconds. */
      readonly dueAt: number;
    };

const PACE: Backoff = { firstMs: 1_000, longestMs: 300_000 };
const SHORT_LIFE_MS = 60_000;

/** A pod lives in its newest sandbox, and only in that one; the four reasons to replace it are the kubelet's. */
export function sandboxNeed(pod: Pod, { sandboxes }: ObservedPod, now: number): SandboxNeed {
  const [newest] = sandboxes;
  if (newest === undefined) return { kind: "create", attempt: 0, why: "the pod has none", crashes: 0, dueAt: now };
  const why = whyReplace(pod, newest, sandboxes);
  if (why === undefined) return { kind: "ready", sandbox: newest };
  return { kind: "create", attempt: newest.attempt + 1, why, ...pacing(newest, now) };
}

/** A pod that must not restart does not get a second sandbox once one of its containers has run in the first. */
export function hasItsLastSandbox({ spec }: Pod, { containers }: Pick<ObservedPod, "containers">): boolean {
  return spec.restartPolicy === "Never" && containers.length > 0;
}

function whyReplace(pod: Pod, newest: ObservedSandbox, all: readonly ObservedSandbox[]): string | undefined {
  if (!newest.ready) return "the last one is not ready";
  if (all.filter(({ ready }) => ready).length > 1) return "the pod has more than one";
  const wantsHostNetwork = pod.spec.hostNetwork === true;
  if (newest.hostNetwork !== wantsHostNetwork) return "the last one has the wrong network namespace";
  if (!wantsHostNetwork && newest.ips.length === 0) return "the last one has no address";
  return undefined;
}

/**
 * Sandboxes that do not last (a broken pause image, a network without addresses) are made with growing delays. As with
 * containers the count is written on them, so the delay survives the agent. The first one is replaced at once.
 */
function pacing(
  { createdAt, crashes }: ObservedSandbox,
  now: number,
): { readonly crashes: number; readonly dueAt: number } {
  const delayMs = delayOf(PACE, crashes);
  const isShortLived = now - createdAt < SHORT_LIFE_MS + delayMs;
  return { crashes: isShortLived ? crashes + 1 : 0, dueAt: dueAfter(createdAt, delayMs, now) };
}
