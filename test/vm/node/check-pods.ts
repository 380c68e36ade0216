import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podOf, script } from "../../e2e/manifest.ts";

/** Every pod of the checks ends at once, and needs no network of its own. */
const spec = { hostNetwork: true, automountServiceAccountToken: false, terminationGracePeriodSeconds: 1 };

/** Uses all the CPU time that it gets, in two processes. */
export const cpuHog: Pod = podOf(
  "cpu-hog",
  {
    command: script("yes > /dev/null & exec yes > /dev/null"),
    resources: { requests: { cpu: "100m" }, limits: { cpu: "300m" } },
  },
  spec,
);

/** One container takes more memory than its limit, and the other one sleeps. */
export const memoryHog: Pod = (() => {
  const pod = podOf("memory-hog", { resources: { limits: { memory: "64Mi" } } }, { ...spec, restartPolicy: "Never" });
  const [bystander] = pod.spec.containers;
  return {
    ...pod,
    spec: {
      ...pod.spec,
      containers: [
        { ...bystander!, name: "bystander" },
        { ...bystander!, name: "hog", command: script("tail /dev/zero") },
      ],
    },
  };
})();

/** Each process starts two, up to the limit. Its CPU is limited too, or it would use up the emulated processor. */
export const forkBomb: Pod = podOf(
  "fork-bomb",
  { command: script("bomb() { bomb | bomb & }; bomb; sleep 100000"), resources: { limits: { cpu: "300m" } } },
  spec,
);

/** A pod without requests, which changes the limits of no other cgroup. */
export const besteffortPod = (name: string): Pod => podOf(name, {}, spec);

/** A pod whose only container exits with code 0 at once. */
export const shortPod = (name: string): Pod => podOf(name, { command: ["true"] }, { ...spec, restartPolicy: "Never" });

/** Uses all CPU time that pods get. */
export const cpuEater: Pod = podOf(
  "cpu-eater",
  { command: script("for process in 1 2 3; do yes > /dev/null & done; exec yes > /dev/null") },
  spec,
);

/** Takes all memory that pods get, again after each restart. One process of busybox does not take more than 2 GiB. */
export const memoryEater: Pod = podOf(
  "memory-eater",
  { command: script("tail /dev/zero & exec tail /dev/zero") },
  spec,
);
