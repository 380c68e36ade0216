import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import { pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { mirroredUid } from "../decide/api-pod.ts";
import { fullNameOf } from "../decide/desired.ts";
import { hasCode, isOfServer, isOutage } from "./retry.ts";

export interface MirrorCallSettings {
  readonly kube: Pick<Kube, "create" | "delete">;
  readonly clock: Clock;
  readonly log: Log;
  /** A mirror pod was made: its status can be told at once. */
  readonly made: (mirror: Pod) => void;
}

export type MirrorOutcome =
  | { readonly kind: "made" | "removed"; readonly mirror: Pod }
  /** Another pod has the name, or the API server does not take it: nothing that another try would change soon. */
  | { readonly kind: "left" }
  | { readonly kind: "outage"; readonly error: unknown };

const FIRST_REFUSED_MS = 1_000;
const LONGEST_REFUSED_MS = 60_000;

/**
 * The calls that make and remove mirror pods; neither rejects. What was refused is left alone for a while, then `again` is called. That
 * is a second at first, since an API server that has just started may not know yet what we may do, and in the end a minute.
 */
export function createMirrorCalls(
  { kube, clock, log, made }: MirrorCallSettings,
  again: () => void,
  signal: AbortSignal,
) {
  /** How often each mirror was refused in a row, and what was told of that. */
  const told = new Map<string | undefined, { readonly times: number; readonly message: string }>();
  /** The mirrors that are left alone, each with what cancels its time. */
  const refused = new Map<string | undefined, () => void>();

  function outcomeOf(mirror: Pod, error: unknown, sentence: string): MirrorOutcome {
    if (isOutage(error) || isOfServer(error)) return { kind: "outage", error };
    const hash = mirroredUid(mirror);
    const message = error instanceof Error ? error.message : String(error);
    const before = told.get(hash);
    if (before?.message !== message) log.warn({ pod: fullNameOf(mirror), uid: hash, err: error }, sentence);
    const times = (before?.times ?? 0) + 1;
    told.set(hash, { times, message });
    const delayMs = Math.min(LONGEST_REFUSED_MS, FIRST_REFUSED_MS * 2 ** Math.min(times - 1, 16));
    const over = clock.wakeAt(clock.now() + delayMs, () => {
      refused.delete(hash);
      again();
    });
    refused.set(hash, over);
    return { kind: "left" };
  }

  return {
    async remove(mirror: Pod): Promise<MirrorOutcome> {
      const { name = "", namespace, uid = "" } = mirror.metadata;
      if (refused.has(mirroredUid(mirror))) return { kind: "left" };
      try {
        await kube.delete(pods(namespace), name, { gracePeriodSeconds: 0, preconditions: { uid } }, { signal });
        told.delete(mirroredUid(mirror));
        return { kind: "removed", mirror };
      } catch (error) {
        // It is gone, or another pod has its name.
        if (hasCode(error, "NOT_FOUND", "CONFLICT")) return { kind: "removed", mirror };
        return outcomeOf(mirror, error, "a mirror pod cannot be removed from the API");
      }
    },
    async create(wanted: Pod): Promise<MirrorOutcome> {
      if (refused.has(mirroredUid(wanted))) return { kind: "left" };
      try {
        const mirror = await kube.create(pods(wanted.metadata.namespace), wanted, { signal });
        told.delete(mirroredUid(wanted));
        made(mirror);
        return { kind: "made", mirror };
      } catch (error) {
        // Who has the name is told by the watch, and so is when it is free.
        if (hasCode(error, "ALREADY_EXISTS")) return { kind: "left" };
        return outcomeOf(wanted, error, "a static pod cannot be shown in the API");
      }
    },
    stop() {
      for (const cancel of refused.values()) cancel();
    },
  };
}
