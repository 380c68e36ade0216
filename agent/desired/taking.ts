import type { PodUid } from "../../proto/ids.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import type { Admissions } from "./admission-queue.ts";

type Write = (pod: DesiredPod) => Promise<void>;

/** What follows when pods are asked about. Like whatever records a pod here, none of it rejects. */
export function createTaking(admissions: Admissions, wake: (uid: PodUid) => void) {
  /** Who was taken begins at once. A rejection is recorded first: it is told only when no later agent can take it back. */
  async function takeUp(pod: DesiredPod, record: Write): Promise<void> {
    if (pod.admission === undefined) wake(pod.uid);
    await record(pod);
    if (pod.admission !== undefined) wake(pod.uid);
  }

  return {
    /** Answers what can be answered of new pods that are known already. Of one that waits nothing has begun: nothing is recorded. */
    async begin(added: readonly DesiredPod[], record: Write): Promise<void> {
      const judged = new Map(admissions.judge(added.map(({ uid }) => uid)).map((pod) => [pod.uid, pod]));
      await Promise.all(
        added.map(async (pod) => {
          if (admissions.isWaiting(pod.uid)) wake(pod.uid);
          else await takeUp(judged.get(pod.uid) ?? pod, record);
        }),
      );
    },
    /** Something has changed by which pods that wait may be answered. */
    async judge(record: Write): Promise<void> {
      await Promise.all(admissions.judge().map((pod) => takeUp(pod, record)));
    },
  };
}
