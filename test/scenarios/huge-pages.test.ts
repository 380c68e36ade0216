import { expect } from "bun:test";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario } from "./api-scenario.ts";

const spec: Partial<PodSpec> = {
  containers: [
    {
      name: "a",
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent",
      volumeMounts: [{ name: "pages", mountPath: "/pages" }],
    },
  ],
  volumes: [{ name: "pages", emptyDir: { medium: "HugePages-1Gi" } }],
};

apiScenario(
  "an emptyDir in huge pages that no container requests keeps its pod waiting, and the event says so",
  async (harness) => {
    await harness.apply("web", spec);
    await harness.advance("5s");
  },
  async ({ api }, harness) => {
    expect(api).toEqual(["web Pending: a waiting ContainerCreating"]);
    expect((await harness.events("web")).map((line) => line.replace(/^\d+x /, ""))).toEqual([
      'Warning FailedMount: MountVolume.SetUp failed for volume "pages" : medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages',
    ]);
  },
  { stride: 3 },
);
