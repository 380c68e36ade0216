import { expect } from "bun:test";
import { ContainerConfig, PodSandboxConfig } from "../../proto/cri/gen/api.ts";
import { apiScenario } from "./api-scenario.ts";
import type { AgentHarness } from "./harness.ts";

const uid = "11111111-2222-3333-4444-555555555555";
const metadata = { name: "old", namespace: "default", uid, attempt: 0 };
const labels = {
  "io.kubernetes.pod.name": "old",
  "io.kubernetes.pod.namespace": "default",
  "io.kubernetes.pod.uid": uid,
};

/** Adds a running pod without a checkpoint, directories of removed pods, and a sandbox without Kubernetes' labels. */
async function addLeftovers(harness: AgentHarness): Promise<void> {
  const sandbox = harness.runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata, labels }));
  const config = ContainerConfig.fromPartial({
    metadata: { name: "a", attempt: 0 },
    labels: { ...labels, "io.kubernetes.container.name": "a" },
    image: { image: "busybox:1" },
  });
  harness.runtime.addForeignContainer(sandbox, config);
  harness.runtime.addForeignSandbox(
    PodSandboxConfig.fromPartial({ metadata: { ...metadata, name: "strange", uid: "unknown" } }),
  );
  await harness.disk.at("/root").makeFolder("pods/left-on-disk", 0o750);
  await harness.disk.at("/logs").makeFolder("shop_gone_only-logs-left/a", 0o755);
}

apiScenario(
  "leftovers of an earlier agent stay until the API server was listed, and are removed if no source wants them",
  async (harness) => {
    await harness.stop();
    await addLeftovers(harness);
    const before = harness.nodeSnapshot();
    harness.kube.goDown();
    await harness.start();
    await harness.advance("10m");
    expect(harness.nodeSnapshot()).toEqual(before);
    harness.kube.comeBack();
    await harness.advance("1m");
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
