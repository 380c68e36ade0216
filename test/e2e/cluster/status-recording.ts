import { pods } from "../../../kube/resource.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { takenBack } from "../../status-regressions.ts";
import { administrator } from "../../upstream/admin-client.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";

export interface StatusRecording {
  /** One sentence for each status so far that takes back what the one before it had said of the same pod. */
  backwards(): readonly string[];
  /** How many statuses were seen. */
  count(): number;
  /** The pods that there are now, as far as was heard, by their names. */
  now(): ReadonlyMap<string, Pod>;
  stop(): Promise<void>;
}

/** Watches every status that the API server has of any pod, from now on. */
export async function recordStatuses(plane: ControlPlane): Promise<StatusRecording> {
  const kube = administrator(plane, "recorder");
  const latest = new Map<string, Pod>();
  const now = new Map<string, Pod>();
  const found: string[] = [];
  let count = 0;
  const see = (pod: Pod) => {
    const uid = pod.metadata.uid ?? "";
    const before = latest.get(uid);
    if (before !== undefined) found.push(...takenBack(before, pod));
    latest.set(uid, pod);
    now.set(pod.metadata.name ?? "", pod);
    count += 1;
  };
  const stopping = new AbortController();
  const listed = Promise.withResolvers<void>();
  const following = kube.follow(
    pods(),
    {},
    {
      replaced(all) {
        now.clear();
        for (const pod of all) see(pod);
        listed.resolve();
      },
      changed(kind, pod) {
        see(pod);
        if (kind === "deleted") now.delete(pod.metadata.name ?? "");
      },
      away: () => undefined,
      back: () => undefined,
    },
    stopping.signal,
  );
  await listed.promise;
  return {
    backwards: () => found,
    count: () => count,
    now: () => now,
    async stop() {
      stopping.abort();
      await following;
      kube.close();
    },
  };
}
