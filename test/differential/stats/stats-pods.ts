import { busyboxImage } from "../../bed/images/images.ts";
import type { Manifest } from "../../e2e/cluster/api-objects.ts";

const COMMAND = ["catatonit", "--", "sh", "-c", "while true; do echo line; sleep 1; done"];
const container = (name: string, rest: object = {}) => ({ name, image: busyboxImage, command: COMMAND, ...rest });

/** The pods whose stats are recorded from the kubelet and read from Berth: of each QoS class, with volumes, on the host's network. */
export const statsPods: readonly Manifest[] = [
  {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "guaranteed" },
    spec: {
      terminationGracePeriodSeconds: 0,
      containers: [
        container("main", { resources: { limits: { cpu: "200m", memory: "64Mi" } } }),
        container("second", { resources: { limits: { cpu: "100m", memory: "32Mi" } } }),
      ],
    },
  },
  {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "burstable" },
    spec: {
      terminationGracePeriodSeconds: 0,
      initContainers: [{ name: "init", image: busyboxImage, command: ["true"] }],
      containers: [
        container("main", {
          resources: { requests: { cpu: "50m", memory: "16Mi" } },
          volumeMounts: [{ name: "scratch", mountPath: "/scratch" }],
        }),
      ],
      volumes: [
        { name: "scratch", emptyDir: {} },
        { name: "labels", downwardAPI: { items: [{ path: "name", fieldRef: { fieldPath: "metadata.name" } }] } },
      ],
    },
  },
  {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "host-network" },
    spec: { terminationGracePeriodSeconds: 0, hostNetwork: true, containers: [container("main")] },
  },
];
