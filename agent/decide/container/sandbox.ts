import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Backoff, backoffDelayMs, dueAfter } from "../pod/backoff.ts";
import type { ObservedPod, ObservedSandbox } from "../pod/observed.ts";

/** Whether the pod's sandbox is usable. */
export type SandboxNeed =
  | { readonly kind: "ready"; readonly sandbox: ObservedSandbox }
  | {
      readonly kind: "create";
      readonly attempt: number;
      readonly why: string;
      /** To be stored in the new sandbox's annotations. */
      readonly crashes: number;
      /** Not before this time; epoch milliseconds. */
      readonly dueAt: number;
    };

const SANDBOX_BACKOFF: Backoff = { initialMs: 1_000, maxMs: 300_000 };
const MIN_LIFETIME_MS = 60_000;

/** A pod runs in its newest sandbox only; the four reasons to replace it are the kubelet's. */
export function sandboxNeed(pod: Pod, { sandboxes }: ObservedPod, now: number): SandboxNeed {
  const [newest] = sandboxes;
  if (newest === undefined) return { kind: "create", attempt: 0, why: "the pod has none", crashes: 0, dueAt: now };
  const why = replacementReason(pod, newest, sandboxes);
  if (why === undefined) return { kind: "ready", sandbox: newest };
  return { kind: "create", attempt: newest.attempt + 1, why, ...nextSandboxBackoff(newest, now) };
}

/** Whether the pod must not get another sandbox: with `restartPolicy: Never`, once a container has run in the first. */
export function cannotReplaceSandbox({ spec }: Pod, { containers }: Pick<ObservedPod, "containers">): boolean {
  return spec.restartPolicy === "Never" && containers.length > 0;
}

function replacementReason(pod: Pod, newest: ObservedSandbox, all: readonly ObservedSandbox[]): string | undefined {
  if (!newest.ready) return "the last one is not ready";
  if (all.filter(({ ready }) => ready).length > 1) return "the pod has more than one";
  const usesHostNetwork = pod.spec.hostNetwork === true;
  if (newest.hostNetwork !== usesHostNetwork) return "the last one has the wrong network namespace";
  if (!usesHostNetwork && newest.ips.length === 0) return "the last one has no address";
  return undefined;
}

/**
 * The back-off for sandboxes that do not last (a broken pause image, a network without addresses). As with containers,
 * the count is stored on the sandbox, so the delay survives a restart of the agent. The first sandbox is replaced at
 * once.
 */
function nextSandboxBackoff(
  { createdAt, crashes }: ObservedSandbox,
  now: number,
): { readonly crashes: number; readonly dueAt: number } {
  const delayMs = backoffDelayMs(SANDBOX_BACKOFF, crashes);
  const isShortLived = now - createdAt < MIN_LIFETIME_MS + delayMs;
  return { crashes: isShortLived ? crashes + 1 : 0, dueAt: dueAfter(createdAt, delayMs, now) };
}
