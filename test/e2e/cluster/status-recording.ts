import { pods } from "../../../kube/resource.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { statusRegressions } from "../../status-regressions.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";

export interface StatusRecording {
  /** One sentence for each status so far that regresses against the one before of the same pod. */
  regressions(): readonly string[];
  /** The number of statuses so far. */
  count(): number;
  /** The current pods by name, as of the last watch event. */
  now(): ReadonlyMap<string, Pod>;
  stop(): Promise<void>;
}

/** Watches all pods from now on and checks each status against the one before. */
export async function recordStatuses(plane: ControlPlane): Promise<StatusRecording> {
  const kube = createAdminClient(plane, "recorder");
  const latest = new Map<string, Pod>();
  const now = new Map<string, Pod>();
  const found: string[] = [];
  let count = 0;
  const record = (pod: Pod) => {
    const uid = pod.metadata.uid ?? "";
    const before = latest.get(uid);
    if (before !== undefined) found.push(...statusRegressions(before, pod));
    latest.set(uid, pod);
    now.set(pod.metadata.name ?? "", pod);
    count += 1;
  };
  const stopping = new AbortController();
  const listed = Promise.withResolvers<void>();
  const reflecting = kube.listAndWatch(
    pods(),
    {},
    {
      onReplaced(all) {
        now.clear();
        for (const pod of all) record(pod);
        listed.resolve();
      },
      onChanged(kind, pod) {
        record(pod);
        if (kind === "deleted") now.delete(pod.metadata.name ?? "");
      },
      onOutage: () => undefined,
      onRecovered: () => undefined,
    },
    stopping.signal,
  );
  await listed.promise;
  return {
    regressions: () => found,
    count: () => count,
    now: () => now,
    async stop() {
      stopping.abort();
      await reflecting;
      kube.close();
    },
  };
}
