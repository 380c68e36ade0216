import { expect, test } from "bun:test";
import { explainMessage } from "./message-explanation.ts";

const podWith = (path: string) => ({
  spec: { containers: [{ name: "main" }], volumes: [{ name: "data", hostPath: { path } }] },
});
const message =
  'error mounting "/run/containerd/io.containerd.runtime.v2.task/k8s.io/1/state/page" to rootfs at "/page"';

for (const path of ["state/page", "./state/page"])
  test(`a mount that fails because the hostPath ${path} is relative says so`, () => {
    expect(explainMessage(podWith(path), message)).toBe(
      `the hostPath "${path}" of volume data is relative, so the runtime does not find it: write an absolute path`,
    );
  });

test("an absolute hostPath, and another failure, need no explanation", () => {
  expect(explainMessage(podWith("/state/page"), message)).toBeUndefined();
  expect(explainMessage(podWith("state/page"), "it exited with code 1")).toBeUndefined();
  expect(explainMessage(podWith("state/page"), "")).toBeUndefined();
});

test("a shortage explains itself, whatever the volumes are", () => {
  const shortage = "Node didn't have enough resource: cpu, requested: 4000, used: 250, capacity: 2000";
  expect(explainMessage(podWith("state/page"), shortage)).toContain("the pod requests 4 CPUs");
});
