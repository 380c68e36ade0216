import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import { pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { mirroredUid } from "../decide/api-pod.ts";
import { fullNameOf } from "../decide/desired.ts";
import { hasCode, isOutage } from "./retry.ts";

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

const REFUSED_MS = 60_000;

/** The calls that make and remove mirror pods; neither rejects. What was refused is left alone for a minute, then `again` is called. */
export function createMirrorCalls(
  { kube, clock, log, made }: MirrorCallSettings,
  again: () => void,
  signal: AbortSignal,
) {
  /** What was told of each mirror that is refused. */
  const told = new Map<string | undefined, string>();
  /** The mirrors that are left alone, each with what cancels its time. */
  const refused = new Map<string | undefined, () => void>();

  function outcomeOf(mirror: Pod, error: unknown, sentence: string): MirrorOutcome {
    if (isOutage(error) || hasCode(error, "SERVER", "TOO_MANY_REQUESTS")) return { kind: "outage", error };
    const hash = mirroredUid(mirror);
    const message = error instanceof Error ? error.message : String(error);
    if (told.get(hash) !== message) log.warn({ pod: fullNameOf(mirror), uid: hash, err: error }, sentence);
    told.set(hash, message);
    const over = clock.wakeAt(clock.now() + REFUSED_MS, () => {
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
