// Containers that are added to a running pod: https://kubernetes.io/docs/concepts/workloads/pods/ephemeral-containers/
import { expect } from "bun:test";
import type { EphemeralContainer } from "../../proto/kubernetes/gen/types.ts";
import { apiScenario } from "./api-scenario.ts";

const looker: EphemeralContainer = { name: "debug", image: "busybox:1", targetContainerName: "a" };

apiScenario(
  "a container that is added to a running pod runs beside the others, which do not notice, and ends with the pod",
  async (stage) => {
    await stage.apply("web");
    await stage.advance("2s");
    await stage.debug("web", looker);
    await stage.advance("2s");
  },
  async ({ api, node }, stage) => {
    expect(api).toEqual(["web Running, ready: a running, ephemeral debug running"]);
    expect(node).toContain("container web/debug #0 running");
    expect((await stage.events("web")).filter((event) => event.includes("Started"))).toHaveLength(2);
    const target = stage.runtime.containers.get(stage.idOf("debug"))?.config.linux?.securityContext?.namespaceOptions;
    expect(target).toMatchObject({ pid: 3, targetId: stage.idOf("a") });
    await stage.remove("web");
    await stage.advance("40s");
    expect(stage.scene()).toEqual([]);
    expect(await stage.shown()).toEqual([]);
  },
);

apiScenario(
  "a container that was added runs once, however it ends, and the pod is what it was",
  async (stage) => {
    await stage.apply("web");
    await stage.advance("2s");
    stage.runtime.programs.set("debug", { exitsAfterMs: 1000, exitCode: 3 });
    await stage.debug("web", looker);
    await stage.advance("60s");
  },
  async ({ api, node }) => {
    expect(api).toEqual(["web Running, ready: a running, ephemeral debug terminated Error 3"]);
    expect(node.filter((line) => line.startsWith("container web/debug"))).toEqual(["container web/debug #0 exited 3"]);
  },
);

apiScenario(
  "a container can be added to see why those of the pod do not begin, and one that cannot run leaves the pod alone",
  async (stage) => {
    const containers = [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" as const }];
    const initContainers = [{ name: "first", image: "busybox:1", imagePullPolicy: "IfNotPresent" as const }];
    await stage.apply("stuck", { initContainers, containers });
    await stage.apply("web", { containers });
    await stage.advance("2s");
    await stage.debug("stuck", { ...looker, targetContainerName: "first" });
    await stage.debug("web", { ...looker, targetContainerName: "b" });
    await stage.advance("2s");
  },
  async ({ api }) => {
    expect(api).toEqual([
      "stuck Pending: init first running, a waiting PodInitializing, ephemeral debug running",
      "web Running, ready: a running, ephemeral debug waiting CreateContainerConfigError",
    ]);
  },
  { apart: 5 },
);

apiScenario(
  "work that is done ends the pod, whoever still looks into it",
  async (stage) => {
    await stage.apply("job", { restartPolicy: "Never", terminationGracePeriodSeconds: 2 });
    await stage.advance("2s");
    await stage.debug("job", looker);
    await stage.advance("2s");
    if (stage.runtime.containers.size > 0) await stage.exit("a", 0);
    await stage.advance("30s");
  },
  async ({ api }) => {
    expect(api).toEqual(["job Succeeded: a terminated Completed 0, ephemeral debug terminated Error 143"]);
  },
  { apart: 3 },
);
