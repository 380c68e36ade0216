import type { Container, Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";

/** A command that runs until SIGTERM and then ends at once. */
export const untilStopped: readonly string[] = ["catatonit", "--", "sleep", "1000000"];

/** A command that ignores SIGTERM: only SIGKILL ends it. */
export const ignoringSigterm: readonly string[] = ["sh", "-c", "trap : TERM; while true; do sleep 1; done"];

/** A command that runs a busybox shell script and ends at once on SIGTERM. */
export const script = (text: string): readonly string[] => ["catatonit", "--", "sh", "-c", text];

/**
 * The same as {@link untilStopped}, but it prints `up` once it handles SIGTERM: the kernel drops a signal to the first
 * process of a container that has no handler yet.
 */
export const upUntilStopped: readonly string[] = script("echo up; exec sleep 1000000");

/**
 * The same as {@link ignoringSigterm}, but it prints `up` once it ignores SIGTERM: a runtime reports a container as running some
 * hundred milliseconds before its shell has set the trap, and until then SIGTERM may end it.
 */
export const upIgnoringSigterm: readonly string[] = ["sh", "-c", "trap : TERM; echo up; while true; do sleep 1; done"];

/** A pod with one container `main` that sleeps until it is stopped. `container` and `spec` override fields. */
export function podOf(name: string, container: Partial<Container> = {}, spec: Partial<PodSpec> = {}): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name },
    spec: {
      containers: [{ name: "main", image: busyboxImage, command: untilStopped, ...container }],
      terminationGracePeriodSeconds: 5,
      ...spec,
    },
  };
}

/** The same pod with an explicit uid, which stays when the manifest changes. */
export function withUid(pod: Pod, uid: string): Pod {
  return { ...pod, metadata: { ...pod.metadata, uid } };
}
