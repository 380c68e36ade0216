import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { type Registry, startRegistry } from "../../bed/containerd/registry.ts";
import { buildTestImages, busyboxImage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { KubectlVersion } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { freePort } from "../free-port.ts";
import { barePod } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("pulls for pods of a cluster");

describe.skipIf(skip !== undefined)("a pod of a cluster", () => {
  let cluster: ClusterNode;
  let registry: Registry;
  beforeAll(async () => {
    cluster = await startClusterNode();
    registry = await startRegistry(cluster.node.containerd);
  }, BUILD_TIMEOUT_MS);
  afterAll(async () => {
    await registry?.stop();
    await cluster?.tearDown();
  });

  test("whose image cannot be pulled waits with the kubelet's reasons and events, and can be deleted", async () => {
    const image = `127.0.0.1:${await freePort()}/berth.test/nowhere:1`;
    await cluster.apply([barePod("lost", { image })]);
    const waiting = "--for=jsonpath={.status.containerStatuses[0].state.waiting.reason}";
    await cluster.kubectl("wait", `${waiting}=ImagePullBackOff`, "pod/lost", "--timeout=180s");
    const { status } = await cluster.pod("lost");
    expect(status?.phase).toBe("Pending");
    expect(status?.containerStatuses?.[0]?.state?.waiting?.message).toContain(`Back-off pulling image "${image}"`);
    expect(await cluster.kubectl("get", "pod", "lost", "--no-headers")).toMatch(
      /^lost +0\/1 +ImagePullBackOff +0 +(\d+m(\d+s)?|\d+s)$/,
    );

    const described = async (version: KubectlVersion) => {
      const events = parseDescribedEvents(await cluster.plane.kubectl(["describe", "pod", "lost"], { version }));
      return events.map(({ type, reason, message }) => `${type} ${reason}: ${message}`);
    };
    await pollUntil("the events", 10_000, async () => (await described("1.36")).at(-1)?.includes("ImagePullBackOff"));
    const expected = [
      "Normal Scheduled: Successfully assigned default/lost to node-a",
      `Normal Pulling: Pulling image "${image}"`,
      `Warning Failed: Failed to pull image "${image}": `,
      "Warning Failed: Error: ErrImagePull",
      `Normal BackOff: Back-off pulling image "${image}"`,
      "Warning Failed: Error: ImagePullBackOff",
    ];
    // In the order of creation: `kubectl describe` sorts a repeated event by its last occurrence.
    const order = "--sort-by=.metadata.name";
    const columns = "--output=custom-columns=:.type,:.reason,:.source.component";
    const ordered = await cluster.kubectl(
      "get",
      "events",
      "--field-selector=involvedObject.name=lost",
      order,
      columns,
      "--no-headers",
    );
    const ofKubelet = ordered.split("\n").filter((line) => line.includes("kubelet"));
    expect(ofKubelet.map((line) => line.trim().split(/ +/).slice(0, 2).join(" "))).toEqual(
      expected.slice(1).map((line) => line.slice(0, line.indexOf(":"))),
    );
    for (const version of ["1.36", "1.32"] as const) {
      const lines = await described(version);
      expect(expected.filter((start) => !lines.some((line) => line.startsWith(start)))).toEqual([]);
    }

    await cluster.plane.kubectl(["delete", "pod", "lost", "--timeout=180s"], { version: "1.32" });
    await cluster.waitUntilEmpty();
  });

  test("that is deleted during its image pull is removed at once, its pull is cancelled, and it never starts", async () => {
    const built = (await buildTestImages()).find(({ name }) => name === busyboxImage)!;
    await registry.push({ ...built, name: "berth.test/slow:1" });
    const proxy = startHoldingProxy(registry.host);
    try {
      const image = `127.0.0.1:${proxy.port}/berth.test/slow:1`;
      await cluster.apply([barePod("hasty", { image }, { terminationGracePeriodSeconds: 600 })]);
      await pollUntil("the pull to be under way", 20_000, () => proxy.waiting() > 0);
      await cluster.kubectl("delete", "pod", "hasty", "--timeout=180s");
      await pollUntil("the runtime to ask no more", 10_000, () => proxy.waiting() === 0);
      await cluster.waitUntilEmpty();

      proxy.open();
      await cluster.apply([barePod("patient", { image })]);
      const [patient] = await cluster.waitForPods(
        "it is up",
        "patient",
        (pods) => pods.length === 1 && pods.every(areContainersReady),
      );
      expect((await cluster.runningUids()).containers).toEqual([patient?.metadata.uid ?? ""]);
      expect(await cluster.node.containers()).toHaveLength(1);
      // The status may be reported before the event.
      const events = await pollUntil("the event of its start", 10_000, async () => {
        const reported = parseDescribedEvents(await cluster.kubectl("describe", "pod", "patient"));
        return reported.some(({ reason }) => reason === "Started") && reported;
      });
      expect(events.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
        "Normal Scheduled",
        "Normal Pulling",
        "Normal Pulled",
        "Normal Created",
        "Normal Started",
      ]);
    } finally {
      await proxy.close();
    }
    await cluster.kubectl("delete", "pod", "patient", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });
});

/** A proxy to the registry `host` that holds back manifest requests until it is opened. */
function startHoldingProxy(host: string) {
  const opening = Promise.withResolvers<void>();
  let waiting = 0;
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 0,
    async fetch({ url, method, headers, signal }): Promise<Response> {
      if (url.includes("/manifests/")) {
        waiting += 1;
        await Promise.race([opening.promise, disconnected(signal)]);
        waiting -= 1;
      }
      const target = new URL(url);
      target.host = host;
      return await fetch(target, { method, headers });
    },
  });
  return {
    port: server.port,
    /** The number of held requests whose client has not disconnected. */
    waiting: () => waiting,
    open: () => opening.resolve(),
    async close() {
      opening.resolve();
      await server.stop(true);
    },
  };
}

const disconnected = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
