import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";

/** The name of the node. */
export const metricsNode = "metrics";

const sleeper = { image: busyboxImage, command: ["sleep", "3600"] };
const terminationGracePeriodSeconds = 0;

const pods: readonly (Pick<Pod, "spec"> & { readonly name: string })[] = [
  {
    name: "probed",
    spec: {
      terminationGracePeriodSeconds,
      containers: [
        {
          ...sleeper,
          name: "main",
          livenessProbe: { exec: { command: ["true"] }, periodSeconds: 1 },
          readinessProbe: { exec: { command: ["true"] }, periodSeconds: 1 },
          volumeMounts: [{ name: "settings", mountPath: "/settings" }],
        },
      ],
      volumes: [{ name: "settings", configMap: { name: "kube-root-ca.crt" } }],
    },
  },
  {
    name: "crashing",
    spec: {
      terminationGracePeriodSeconds,
      containers: [{ image: busyboxImage, command: ["false"], name: "main" }],
    },
  },
  {
    name: "without-image",
    spec: { terminationGracePeriodSeconds, containers: [{ image: "127.0.0.1:1/none:1", name: "main" }] },
  },
  {
    name: "too-large",
    spec: {
      nodeName: metricsNode,
      containers: [{ ...sleeper, name: "main", resources: { requests: { cpu: "1000" } } }],
    },
  },
];

/**
 * Creates pods that make an agent record most of what it has metrics for: probes, volumes, an end, a failing pull, a
 * rejection, and a static pod. Returns when they are in these states.
 */
export async function createMetricsPods(plane: ControlPlane, manifests: string): Promise<void> {
  const items = pods.map(({ name, spec }) => ({ apiVersion: "v1", kind: "Pod", metadata: { name }, spec }));
  await plane.kubectl(["apply", "--filename=-"], { input: JSON.stringify({ apiVersion: "v1", kind: "List", items }) });
  const manifest = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "static" },
    spec: { containers: [{ ...sleeper, name: "main" }] },
  };
  await writeFile(join(manifests, "static.yaml"), JSON.stringify(manifest));
  const expected = ["probed=Running", "too-large=Failed", `static-${metricsNode}=Running`];
  await pollUntil("the pods of the metrics", 60_000, async () => {
    const format = '--output=jsonpath={range .items[*]}{.metadata.name}={.status.phase}{"\\n"}{end}';
    const states = (await plane.kubectl(["get", "pods", format])).split("\n");
    const restarted = await plane.kubectl([
      "get",
      "pod",
      "crashing",
      "--output=jsonpath={.status.containerStatuses[0].restartCount}",
    ]);
    return expected.every((each) => states.includes(each)) && Number(restarted) > 0;
  });
}
