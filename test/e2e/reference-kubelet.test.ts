import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Node, Pod } from "../../proto/kubernetes/gen/types.ts";
import { findLeakedResources, listMachineResources } from "../bed/cleanup/leaked-resources.ts";
import { type Containerd, startContainerd } from "../bed/containerd/containerd.ts";
import { importImages, webImage, webPage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type ControlPlane, startControlPlane } from "../upstream/control-plane.ts";
import { skipWithoutPrograms } from "../upstream/programs.ts";
import { type ReferenceKubelet, startReferenceKubelet } from "../upstream/reference-kubelet.ts";

const skip = skipWithoutPrograms("the reference kubelet");

describe.skipIf(skip !== undefined)("the reference kubelet", () => {
  let folder = "";
  let before: readonly string[] = [];
  let hadFolder = false;
  let plane: ControlPlane;
  let containerd: Containerd;
  let kubelet: ReferenceKubelet;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "berth-reference-test-"));
    before = await listMachineResources();
    hadFolder = existsSync("/var/lib/kubelet");
    plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log });
    containerd = await startContainerd({ stateDir: join(folder, "node") });
    await importImages(containerd);
  }, 20 * 60_000);
  afterAll(async () => {
    await kubelet?.kill9();
    await containerd?.stop();
    await plane?.stop();
    const left = await readdir(join(folder, "node"));
    await rm(folder, { recursive: true });
    expect(existsSync("/var/lib/kubelet")).toBe(hadFolder);
    expect(left.toSorted()).toEqual(["containerd.log", "pod-logs", "reference-kubelet.log"]);
    expect(await findLeakedResources(before)).toEqual([]);
  }, 600_000);

  const read = async <T>(kind: string, name: string) =>
    JSON.parse(await plane.kubectl(["get", kind, name, "--output=json"])) as T;

  test("registers its node and runs a pod that the scheduler binds to it", async () => {
    kubelet = await startReferenceKubelet({
      controlPlane: plane,
      nodeName: "reference",
      endpoint: containerd.endpoint,
      stateDir: join(folder, "node"),
    });
    await pollUntil("the node to be Ready", 30_000, async () => {
      // The node does not exist at first; the timeout reports any other failure.
      const seen = await read<Node>("node", "reference").catch(() => undefined);
      return seen?.status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
    });
    expect((await read<Node>("node", "reference")).status?.nodeInfo?.kubeletVersion).toBe("v1.36.3");

    await plane.kubectl(["run", "web", `--image=${webImage}`]);
    const pod = await pollUntil("the pod to run", 30_000, async () => {
      const seen = await read<Pod>("pod", "web");
      return seen.status?.containerStatuses?.[0]?.ready === true && seen;
    });
    const page = await pollUntil("the page of the pod", 5000, () =>
      fetch(`http://${pod.status?.podIP}:8080/`).then(
        (answer) => answer.text(),
        () => undefined,
      ),
    );
    expect(page).toBe(webPage);
    // The API server calls the kubelet, which accepts its client certificate.
    expect(await plane.kubectl(["exec", "web", "--", "cat", "/proc/1/comm"])).not.toBe("");

    await plane.kubectl(["delete", "pod", "web", "--grace-period=1", "--timeout=180s"]);
  }, 600_000);
});
