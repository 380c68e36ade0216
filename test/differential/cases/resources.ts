import { busyboxImage } from "../../bed/images/images.ts";
import { untilStopped } from "../../e2e/manifest.ts";
import { containerStatusOf, isReady, type PodCase, viewCase } from "./pod-case.ts";

export const resources = { requests: { cpu: "25m", memory: "24Mi" }, limits: { cpu: "250m", memory: "48Mi" } };

/** Requests and limits, as the container and the pod's status show them. */
export const resourceCases: readonly PodCase[] = [
  viewCase("request-of-memory", ["limits", "oom"], { resources: { requests: { memory: "64Mi" } } }),
  viewCase("cpu-below-minimum", ["limits", "oom"], { resources: { requests: { cpu: "1m" }, limits: { cpu: "2m" } } }),
  viewCase("burstable", ["limits", "oom"], { resources }),
  viewCase("guaranteed", ["limits", "oom"], { resources: { limits: resources.limits } }),
  viewCase("limit-of-cpu", ["limits", "oom"], { resources: { limits: { cpu: "1" } } }),
  {
    name: "resources-of-a-pod",
    spec: {
      initContainers: [
        {
          name: "first",
          image: busyboxImage,
          command: ["true"],
          resources: { requests: { cpu: "60m" } },
        },
        { name: "proxy", image: busyboxImage, command: untilStopped, restartPolicy: "Always", resources },
      ],
      containers: [
        { name: "main", image: busyboxImage, command: untilStopped, resources: { limits: { memory: "8Mi" } } },
        { name: "other", image: busyboxImage, command: untilStopped, resources: { requests: { cpu: "5m" } } },
      ],
    },
    until: isReady,
  },
  {
    name: "resources-of-a-pod-in-init",
    spec: {
      initContainers: [{ name: "first", image: busyboxImage, command: untilStopped, resources }],
    },
    container: { resources: { requests: { cpu: "5m" } } },
    until: (pod) => containerStatusOf(pod, "first")?.state?.running !== undefined,
  },
];
