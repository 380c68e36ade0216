import { expect } from "bun:test";
import { ContainerConfig, PodSandboxConfig } from "../../proto/cri/gen/api.ts";
import { apiScenario } from "./api-scenario.ts";
import type { Stage } from "./harness.ts";

const uid = "11111111-2222-3333-4444-555555555555";
const metadata = { name: "old", namespace: "default", uid, attempt: 0 };
const labels = {
  "io.kubernetes.pod.name": "old",
  "io.kubernetes.pod.namespace": "default",
  "io.kubernetes.pod.uid": uid,
};

/** A pod that runs and of which no record tells, folders of pods that are gone, and a sandbox that belongs to nobody. */
async function leave(stage: Stage): Promise<void> {
  const sandbox = stage.runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata, labels }));
  const config = ContainerConfig.fromPartial({
    metadata: { name: "a", attempt: 0 },
    labels: { ...labels, "io.kubernetes.container.name": "a" },
    image: { image: "busybox:1" },
  });
  stage.runtime.addForeignContainer(sandbox, config);
  stage.runtime.addForeignSandbox(
    PodSandboxConfig.fromPartial({ metadata: { ...metadata, name: "strange", uid: "of-nobody" } }),
  );
  await stage.disk.at("/root").makeFolder("pods/left-on-disk", 0o750);
  await stage.disk.at("/logs").makeFolder("shop_gone_only-logs-left/a", 0o755);
}

apiScenario(
  "what an earlier life has left stays as long as the API server might want it, and goes when that wants it not",
  async (stage) => {
    await stage.stop();
    await leave(stage);
    const before = stage.scene();
    stage.kube.goDown();
    await stage.start();
    await stage.advance("10m");
    expect(stage.scene()).toEqual(before);
    stage.kube.comeBack();
    await stage.advance("1m");
  },
  async (end) => {
    expect(end).toMatchInlineSnapshot(`
      {
        "api": [],
        "node": [
          "sandbox strange #0 ready",
        ],
      }
    `);
  },
);
