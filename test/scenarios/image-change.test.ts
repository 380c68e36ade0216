// `kubectl set image` on a pod of the API, with the agent dying after any call.
import { expect } from "bun:test";
import { pods } from "../../kube/resource.ts";
import { apiScenario } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";
import { filterLines } from "./scenario.ts";

/** Changes the image of the pod's container. It has to be pulled first, which takes two seconds. */
async function setImage({ kube, runtime, clock }: AgentHarness, name: string): Promise<void> {
  runtime.registry.set("busybox:2", undefined);
  runtime.before.pullImage = () => new Promise((resolve) => void clock.wakeAt(clock.now() + 2_000, resolve));
  const body = { spec: { containers: [{ name: "a", image: "busybox:2", imagePullPolicy: "IfNotPresent" }] } };
  await kube.user.patch(pods("default"), name, { type: "merge", body });
}

apiScenario(
  "a pod stays ready while its container gets another image, which is pulled while the old one runs",
  async (harness) => {
    await harness.apply("web");
    await harness.advance("5s");
    await setImage(harness, "web");
    await harness.advance("5s");
    harness.appendLog(await harness.apiPods());
  },
  async (_end, { log }) => {
    expect(filterLines(log.join("\n"), /web(:| Running)/)).toMatchInlineSnapshot(`
      "0s default/web: create the pod's log directory
      0s default/web: run sandbox (attempt 0): the pod has none
      0s default/web: create the pod's directories
      0s default/web: create container a (attempt 0): it has not run yet
      0s default/web: start container a (attempt 0)
      0s report web Running, ready: a running
      7s default/web: pull image busybox:2: it is not on this node
      7s default/web: stop container a within 30s: container a definition changed
      7s default/web: create container a (attempt 1): it exited with code 143
      7s default/web: start container a (attempt 1)
      7s report web Running, ready: a running (restarts: 1)
      10s web Running, ready: a running (restarts: 1)"
    `);
  },
);

apiScenario(
  "a container with restartPolicy Never runs again after its image has changed while it ran",
  async (harness) => {
    await harness.apply("job", { restartPolicy: "Never" });
    await harness.advance("5s");
    await setImage(harness, "job");
    await harness.advance("30s");
  },
  async ({ api }) => {
    expect(api).toEqual(["job Running, ready: a running (restarts: 1)"]);
  },
);

apiScenario(
  "a container with restartPolicy Never that had ended before its image changed does not run again",
  async (harness) => {
    const containers = ["a", "b"].map((name) => ({
      name,
      image: "busybox:1",
      imagePullPolicy: "IfNotPresent" as const,
    }));
    await harness.apply("job", { restartPolicy: "Never", containers });
    await harness.advance("5s");
    await harness.exit("b", 3);
    await harness.advance("5s");
    const body = { spec: { containers: containers.map((each) => ({ ...each, image: "busybox:2" })) } };
    harness.runtime.addImage("busybox:2");
    await harness.kube.user.patch(pods("default"), "job", { type: "merge", body });
    await harness.advance("30s");
  },
  async ({ api }) => {
    expect(api).toEqual(["job Running: a running (restarts: 1), b terminated Error 3"]);
  },
);
