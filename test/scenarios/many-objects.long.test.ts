// Five hundred pods on a node, and five hundred volumes of a pod.
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Volume } from "../../proto/kubernetes/gen/types.ts";
import { runInCluster } from "./api-scenario.ts";

test("of 500 pods a node with maxPods 110 admits exactly 110 and rejects the others with OutOfpods", async () => {
  const names = Array.from({ length: 500 }, (_, index) => `web-${String(index).padStart(3, "0")}`);
  const harness = await runInCluster(async (on) => {
    await Promise.all(names.map((name) => on.apply(name)));
    await on.advance("30s");
  });
  const counts = Map.groupBy(await harness.apiPods(), (line) => line.replace(/^\S+ /, ""));
  expect(Object.fromEntries([...counts].map(([line, all]) => [line, all.length]))).toEqual({
    "Running, ready: a running": 110,
    "Failed (OutOfpods): no containers": 390,
  });
  expect(harness.runtime.sandboxes.size).toBe(110);
  const { status } = await harness.kube.user.get(pods("default"), "web-499");
  expect(status?.message).toBe(
    "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110",
  );
}, 60_000);

test("a pod with five hundred volumes runs, and nothing is left of it", async () => {
  const volumes = Array.from(
    { length: 500 },
    (_, n): Volume => ({ name: `v${n}`, emptyDir: n % 2 ? {} : { medium: "Memory" } }),
  );
  const harness = await runInCluster(async (on) => {
    await on.apply("web", {
      containers: [
        {
          name: "a",
          image: "busybox:1",
          imagePullPolicy: "IfNotPresent",
          volumeMounts: volumes.map(({ name }) => ({ name, mountPath: `/${name}` })),
        },
      ],
      volumes,
    });
    await on.advance("5s");
  });
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  expect(harness.mounts.mountPoints.length).toBe(250);
  await harness.deletePod("web", 1);
  await harness.advance("60s");
  expect([await harness.apiPods(), harness.mounts.mountPoints]).toEqual([[], []]);
  expect(harness.disk.paths().filter((path) => path.startsWith("/root/pods/"))).toEqual([]);
});
