// Ephemeral containers: https://kubernetes.io/docs/concepts/workloads/pods/ephemeral-containers/
import { expect } from "bun:test";
import type { EphemeralContainer } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario } from "./api-scenario.ts";

const debugContainer: EphemeralContainer = { name: "debug", image: "busybox:1", targetContainerName: "a" };

apiScenario(
  "an ephemeral container runs beside the others without restarting them, and ends with the pod",
  async (harness) => {
    await harness.apply("web");
    await harness.advance("2s");
    await harness.debug("web", debugContainer);
    await harness.advance("2s");
  },
  async ({ api, node }, harness) => {
    expect(api).toEqual(["web Running, ready: a running, ephemeral debug running"]);
    expect(node).toContain("container web/debug #0 running");
    expect((await harness.events("web")).filter((event) => event.includes("Started"))).toHaveLength(2);
    const target = harness.runtime.containers.get(harness.containerIdOf("debug"))?.config.linux?.securityContext
      ?.namespaceOptions;
    expect(target).toMatchObject({ pid: 3, targetId: harness.containerIdOf("a") });
    await harness.deletePod("web");
    await harness.advance("40s");
    expect(harness.nodeSnapshot()).toEqual([]);
    expect(await harness.apiPods()).toEqual([]);
  },
);

apiScenario(
  "an ephemeral container runs once, also after a failure, and does not change the pod's phase",
  async (harness) => {
    await harness.apply("web");
    await harness.advance("2s");
    harness.runtime.programs.set("debug", { exitsAfterMs: 1000, exitCode: 3 });
    await harness.debug("web", debugContainer);
    await harness.advance("60s");
  },
  async ({ api, node }) => {
    expect(api).toEqual(["web Running, ready: a running, ephemeral debug terminated Error 3"]);
    expect(node.filter((line) => line.startsWith("container web/debug"))).toEqual(["container web/debug #0 exited 3"]);
  },
);

apiScenario(
  "an ephemeral container starts during initialization, and one without its target container only waits itself",
  async (harness) => {
    const containers = [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" as const }];
    const initContainers = [{ name: "first", image: "busybox:1", imagePullPolicy: "IfNotPresent" as const }];
    await harness.apply("stuck", { initContainers, containers });
    await harness.apply("web", { containers });
    await harness.advance("2s");
    await harness.debug("stuck", { ...debugContainer, targetContainerName: "first" });
    await harness.debug("web", { ...debugContainer, targetContainerName: "b" });
    await harness.advance("2s");
  },
  async ({ api }) => {
    expect(api).toEqual([
      "stuck Pending: init first running, a waiting PodInitializing, ephemeral debug running",
      "web Running, ready: a running, ephemeral debug waiting CreateContainerConfigError",
    ]);
  },
  { stride: 5 },
);

apiScenario(
  "a job ends although an ephemeral container still runs",
  async (harness) => {
    await harness.apply("job", { restartPolicy: "Never", terminationGracePeriodSeconds: 2 });
    await harness.advance("2s");
    await harness.debug("job", debugContainer);
    await harness.advance("2s");
    if (harness.runtime.containers.size > 0) await harness.exit("a", 0);
    await harness.advance("30s");
  },
  async ({ api }) => {
    expect(api).toEqual(["job Succeeded: a terminated Completed 0, ephemeral debug terminated Error 143"]);
  },
  { stride: 3 },
);
