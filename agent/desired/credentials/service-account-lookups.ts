import type { Clock } from "../../../host/clock.ts";
import { isServerFailure, KubeError } from "../../../kube/error.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { ImagePullServiceAccount } from "../../../proto/kubelet/image-records.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ServiceAccountLookup } from "../../decide/admission/image-verification.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";

/** The service accounts that may prove a pod's access to an image, looked up when a pod waits for one. */
export interface ServiceAccountLookups {
  /** What is known now; sends nothing. `pending` if the account has to be looked up. */
  latest(desired: Pick<DesiredPod, "uid" | "pod">, image: string): ServiceAccountLookup;
  /** Looks the pod's account for the image up, unless that is under way or its result is fresh. */
  lookUp(desired: Pick<DesiredPod, "uid" | "pod">, image: string): void;
  /** Nothing is left of the pod. */
  forget(uid: PodUid): void;
  /** Ignores the answers that are still to come. */
  stop(): void;
}

export interface ServiceAccountLookupsOptions {
  /** The pod's account, if a credential provider uses it for the image. Rejects with `KubeError`. */
  readonly accountFor: (pod: Pod, image: string) => Promise<ImagePullServiceAccount | undefined>;
  /** A lookup has ended, or exceeded its time limit. */
  readonly onResult: (uid: PodUid) => void;
  readonly clock: Clock;
}

interface Entry {
  result: ServiceAccountLookup;
  /** Undefined while the API server has not answered. */
  answeredAt: number | undefined;
  readonly cancelTimer: () => void;
}

/** After this time a pod no longer waits for the API server: the name of its account counts. */
const TIMEOUT_MS = 1_000;
/** Long enough for the sync that a result causes. */
const FRESH_MS = 5_000;

export function createServiceAccountLookups({
  accountFor,
  onResult,
  clock,
}: ServiceAccountLookupsOptions): ServiceAccountLookups {
  const pods = new Map<PodUid, Map<string, Entry>>();

  function isCurrent({ answeredAt }: Entry): boolean {
    if (answeredAt === undefined) return true;
    const age = clock.now() - answeredAt;
    // Negative after the clock was set back.
    return age >= 0 && age < FRESH_MS;
  }

  function entryOf(uid: PodUid, image: string): Entry | undefined {
    const entry = pods.get(uid)?.get(image);
    return entry !== undefined && isCurrent(entry) ? entry : undefined;
  }

  function start({ uid, pod }: Pick<DesiredPod, "uid" | "pod">, image: string): void {
    const { namespace = "default" } = pod.metadata;
    const unreadable = { kind: "unreadable", namespace, name: pod.spec.serviceAccountName ?? "" } as const;
    const isForgotten = () => pods.get(uid)?.get(image) !== entry;
    const cancelTimer = clock.wakeAt(clock.now() + TIMEOUT_MS, () => {
      entry.result = unreadable;
      onResult(uid);
    });
    const entry: Entry = { result: { kind: "pending" }, answeredAt: undefined, cancelTimer };
    pods.set(uid, (pods.get(uid) ?? new Map<string, Entry>()).set(image, entry));
    const onAnswer = (result: ServiceAccountLookup) => {
      if (isForgotten()) return;
      cancelTimer();
      entry.result = result;
      entry.answeredAt = clock.now();
      onResult(uid);
    };
    accountFor(pod, image).then(
      (account) => onAnswer(account === undefined ? { kind: "none" } : { kind: "found", account }),
      (error: unknown) => {
        if (!(error instanceof KubeError)) throw error;
        // An account that is deleted or forbidden proves nothing.
        onAnswer(isServerFailure(error) ? unreadable : { kind: "none" });
      },
    );
  }

  function forget(uid: PodUid): void {
    for (const { cancelTimer } of pods.get(uid)?.values() ?? []) cancelTimer();
    pods.delete(uid);
  }

  return {
    latest: ({ uid }, image) => entryOf(uid, image)?.result ?? { kind: "pending" },
    lookUp(desired, image) {
      if (entryOf(desired.uid, image) === undefined) start(desired, image);
    },
    forget,
    stop() {
      for (const uid of [...pods.keys()]) forget(uid);
    },
  };
}
