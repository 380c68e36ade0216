import type { Container, Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";

/** A command that runs until SIGTERM, and ends at once then. */
export const untilStopped: readonly string[] = ["catatonit", "--", "sleep", "1000000"];

/** A command that hears SIGTERM and goes on: only SIGKILL ends it. */
export const ignoringSigterm: readonly string[] = ["sh", "-c", "trap : TERM; while true; do sleep 1; done"];

/** A command that runs a script of busybox' shell and ends at once on SIGTERM. */
export const script = (text: string): readonly string[] => ["catatonit", "--", "sh", "-c", text];

/** The same as {@link untilStopped}, which prints `up` when it would hear SIGTERM: that of a first process without a handler yet is lost. */
export const upUntilStopped: readonly string[] = script("echo up; exec sleep 1000000");

/** A pod with one container called `main` that sleeps until it is stopped, but for what `container` and `spec` say. */
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

/** The same pod under a uid of its own, which stays when the manifest changes. */
export function withUid(pod: Pod, uid: string): Pod {
  return { ...pod, metadata: { ...pod.metadata, uid } };
}
