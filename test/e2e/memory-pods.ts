import type { Container, Pod, PodSpec, Probe, Volume } from "../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../bed/images/images.ts";
import { podOf } from "./manifest.ts";

/*
 * Pods for the measurement of memory. With many volumes, and a spec of a hundred kilobytes, an entry that the agent keeps for
 * each pod or volume shows after some dozen pods.
 */

const VOLUMES_OF_A_TYPE = 10;
/** Shorter than the longest string that the kernel accepts in an environment (`MAX_ARG_STRLEN`, 128 KiB). */
const padding = "x".repeat(100_000);

/** A pod that ends by itself. It has no network of its own, which costs the runtime most of the time, and the agent nothing. */
export const shortPod = (name: string): Pod =>
  podOf(name, { command: ["true"] }, { hostNetwork: true, restartPolicy: "Never" });

const volumes: readonly Volume[] = Array.from({ length: VOLUMES_OF_A_TYPE }, (_, at) => [
  { name: `scratch-${at}`, emptyDir: {} },
  { name: `about-${at}`, downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
]).flat();

const succeeds = { exec: { command: ["true"] } };
/** A busy machine needs more than a second for a command. */
const patient: Probe = { periodSeconds: 1, timeoutSeconds: 30, failureThreshold: 10 };

/** The container and the spec of {@link usualPod}. `more` are volumes in addition to those that every pod can have. */
export function usualParts(
  index: number,
  port: number,
  more: readonly Volume[] = [],
): readonly [Partial<Container>, Partial<PodSpec>] {
  const all = [...volumes, ...more];
  const connects = { ...patient, tcpSocket: { host: "127.0.0.1", port } };
  const container: Partial<Container> = {
    env: [
      { name: "PADDING", value: padding },
      { name: "IP", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } },
    ],
    volumeMounts: all.map(({ name }) => ({ name, mountPath: `/volumes/${name}` })),
    startupProbe: connects,
    readinessProbe: connects,
  };
  const prepare = { name: "prepare", image: busyboxImage, command: ["true"] };
  return index % 2 === 0
    ? [{ ...container, livenessProbe: { ...patient, ...succeeds } }, { volumes: all }]
    : [
        { ...container, lifecycle: { postStart: succeeds } },
        { volumes: all, initContainers: [prepare], hostNetwork: true },
      ];
}

/**
 * A pod with volumes and probes that connect to `port` of this machine. What the runtime takes long for, each second one has: a
 * network of its own and a probe by command, or an init container and a hook.
 */
export const usualPod = (name: string, index: number, port: number): Pod => podOf(name, ...usualParts(index, port));
