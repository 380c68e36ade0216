import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { pods } from "../../../kube/resource.ts";
import {
  ExecSyncRequest,
  ExecSyncResponse,
  PodSandboxStatusRequest,
  PodSandboxStatusResponse,
} from "../../../proto/cri/gen/api.ts";
import type { Pod, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { callCri } from "../../bed/containerd/cri-call.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { script } from "../manifest.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { type ClusterNode, parseDescribedEvents, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("pods that depend on other objects of a cluster");

describe.skipIf(skip !== undefined)("a pod of a cluster", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  const kubectl = (...args: readonly string[]) => cluster.kubectl(...args);
  const conditionOf = async (name: string, type: string) => {
    const found = (await cluster.pod(name)).status?.conditions?.find((condition) => condition.type === type);
    return [found?.status, found?.reason, found?.message].filter((part) => part !== undefined).join(" ");
  };
  /** The overhead of a sandbox that the runtime has received. */
  const overheadOf = async (podSandboxId: string) => {
    const request = [PodSandboxStatusRequest, { podSandboxId, verbose: true }] as const;
    const { endpoint } = cluster.node.containerd;
    const answer = await callCri(endpoint, "RuntimeService/PodSandboxStatus", request, PodSandboxStatusResponse);
    const details = JSON.parse(answer.info["info"] ?? "{}") as {
      readonly config?: { readonly linux?: { readonly overhead?: object } };
    };
    return details.config?.linux?.overhead;
  };
  /** What the cgroup of a running container limits: bytes of memory, and microseconds of CPU per period. */
  const cgroupFilesOf = async (containerID: string) => {
    // The files of cgroup v1, and those of v2.
    const read = "cat memory/memory.limit_in_bytes cpu/cpu.cfs_quota_us 2>/dev/null || cat memory.max cpu.max";
    const cmd = ["sh", "-c", `cd /sys/fs/cgroup; ${read}`];
    const request = [ExecSyncRequest, { containerId: containerID.replace(/^.*:\/\//, ""), cmd, timeout: 10n }] as const;
    const { endpoint } = cluster.node.containerd;
    const { stdout } = await callCri(endpoint, "RuntimeService/ExecSync", request, ExecSyncResponse);
    return new TextDecoder()
      .decode(stdout)
      .trim()
      .split("\n")
      .map((line) => Number.parseInt(line, 10));
  };
  const deletePods = async (...names: readonly string[]) => {
    await kubectl("delete", "pod", ...names, "--timeout=180s");
    await cluster.waitUntilEmpty();
  };

  test("is Ready only while the condition of its readiness gate is True", async () => {
    await cluster.apply([barePod("gated", {}, { readinessGates: [{ conditionType: "example.com/fed" }] })]);
    await kubectl("wait", "--for=condition=ContainersReady", "pod/gated", "--timeout=180s");
    expect(await conditionOf("gated", "Ready")).toBe(
      'False ReadinessGatesNotReady corresponding condition of pod readiness gate "example.com/fed" does not exist.',
    );
    const setCondition = async (status: string) => {
      const body = JSON.stringify({ status: { conditions: [{ type: "example.com/fed", status }] } });
      await kubectl("patch", "pod", "gated", "--subresource=status", "--type=strategic", `--patch=${body}`);
    };
    await setCondition("True");
    await kubectl("wait", "--for=condition=Ready", "pod/gated", "--timeout=180s");
    expect(await conditionOf("gated", "example.com/fed")).toBe("True");
    await setCondition("False");
    await kubectl("wait", "--for=condition=Ready=false", "pod/gated", "--timeout=180s");
    expect(await conditionOf("gated", "Ready")).toBe(
      'False ReadinessGatesNotReady the status of pod readiness gate "example.com/fed" is not "True", but False',
    );
    await deletePods("gated");
  });

  test("has no event of a probe that its stop cuts off", async () => {
    const names = ["cut-1", "cut-2", "cut-3"];
    // Its first run makes the pod ready, the next one lasts until the stop.
    const command = ["sh", "-c", "test -e /notes/1 && touch /notes/2 && exec sleep 1000; touch /notes/1"];
    const readinessProbe: Probe = { exec: { command }, timeoutSeconds: 1000, periodSeconds: 1 };
    const volumeMounts = [{ name: "notes", mountPath: "/notes" }];
    const withNotes = { volumes: [{ name: "notes", emptyDir: {} }] };
    await cluster.apply(names.map((name) => barePod(name, { readinessProbe, volumeMounts }, withNotes)));
    await kubectl("wait", "--for=condition=Ready", ...names.map((name) => `pod/${name}`), "--timeout=180s");
    const uids = (await cluster.pods()).map(({ metadata }) => metadata.uid);
    const noteOf = (uid: string | undefined) =>
      join(cluster.node.paths.agentRoot, `pods/${uid}/volumes/kubernetes.io~empty-dir/notes/2`);
    await pollUntil("the second probes", 30_000, async () => uids.map(noteOf).every((path) => existsSync(path)));
    await deletePods(...names);
    // Events are sent in their order.
    await cluster.apply([barePod("later")]);
    const eventsUntilLater = () =>
      pollUntil("the start of a later pod", 60_000, async () => {
        const events = await kubectl("get", "events", "--no-headers");
        return / Started +pod.later /.test(events) && events.split("\n");
      });
    const ofNames = (await eventsUntilLater()).filter((line) => line.includes("pod/cut-"));
    const reasons = ofNames.map((line) => line.split(/ +/)[2]);
    expect(reasons.filter((reason) => reason === "Killing")).toHaveLength(3);
    expect(ofNames.filter((line) => line.includes("Unhealthy"))).toEqual([]);
    await deletePods("later");
  });

  test("whose log directory has too long a name stays Pending with an event, and is deleted at once", async () => {
    const name = "p".repeat(220);
    const pod = barePod(name, {}, { terminationGracePeriodSeconds: 600 });
    await cluster.apply([{ ...pod, metadata: { name } }]);
    const events = await pollUntil("the event", 10_000, async () => {
      const all = parseDescribedEvents(await kubectl("describe", "pod", name));
      return all.some(({ reason }) => reason === "FailedCreatePodSandBox") && all;
    });
    expect(events.find(({ reason }) => reason === "FailedCreatePodSandBox")?.message).toEndWith(
      "has a name of more than 255 bytes",
    );
    expect((await cluster.pod(name)).status?.phase).toBe("Pending");
    await deletePods(name);
  });

  test("of forty containers has one status a second while they start", async () => {
    const kube = createAdminClient(cluster.plane, "recorder");
    const stopping = new AbortController();
    const seen: { readonly pod: Pod; readonly at: number }[] = [];
    const record = (pod: Pod) => void seen.push({ pod, at: performance.now() });
    const ofMany = { fieldSelector: "metadata.name=many" };
    const listed = Promise.withResolvers<void>();
    const watching = kube.listAndWatch(
      pods("default"),
      ofMany,
      {
        onReplaced: () => listed.resolve(),
        onChanged: (_kind, pod) => record(pod),
        onOutage: () => undefined,
        onRecovered: () => undefined,
      },
      stopping.signal,
    );
    await listed.promise;
    const { spec } = barePod("");
    const containers = Array.from({ length: 40 }, (_, index) => ({ ...spec.containers[0], name: `c${index}` }));
    await cluster.create([barePod("many", {}, { containers })]);
    await kubectl("wait", "--for=condition=Ready", "pod/many", "--timeout=180s");
    await deletePods("many");
    stopping.abort();
    await watching;
    kube.close();
    const runningIn = ({ status }: Pod) => status?.containerStatuses?.filter(({ state }) => state?.running).length ?? 0;
    const first = seen.findIndex(({ pod }) => runningIn(pod) > 0);
    const last = seen.findIndex(({ pod }) => runningIn(pod) === 40);
    expect(runningIn(seen[first]!.pod)).toBe(1);
    const startSeconds = (seen[last]!.at - seen[first]!.at) / 1000;
    expect(last - first).toBeLessThanOrEqual(Math.ceil(startSeconds));
    // Beside these: created, bound, waiting, its sandbox ready, deleted, its deletion confirmed, failed, grace period 0, gone;
    // and one in each started second while the containers end, which takes a busy machine several.
    const endSeconds = (seen.at(-1)!.at - seen[last]!.at) / 1000;
    expect(seen.length - (last - first + 1)).toBeLessThanOrEqual(9 + Math.ceil(endSeconds));
  });

  test("is resized while it runs, and says so until the node has carried it out", async () => {
    const resources = { requests: { cpu: "20m", memory: "16Mi" }, limits: { cpu: "100m", memory: "64Mi" } };
    await cluster.apply([barePod("sized", { resources })]);
    await kubectl("wait", "--for=condition=Ready", "pod/sized", "--timeout=180s");
    const resize = async (to: typeof resources) => {
      const body = JSON.stringify({ spec: { containers: [{ name: "main", resources: to }] } });
      await kubectl("patch", "pod", "sized", "--subresource=resize", `--patch=${body}`);
    };
    const containerOf = async () => (await cluster.pod("sized")).status?.containerStatuses?.[0];
    const before = await containerOf();
    const cgroupFiles = async () => await cgroupFilesOf(before?.containerID ?? "");
    expect(await cgroupFiles()).toEqual([64 * 2 ** 20, 10_000]);
    const larger = { requests: { cpu: "40m", memory: "32Mi" }, limits: { cpu: "200m", memory: "128Mi" } };
    await resize(larger);
    const runsWith = async (wanted: typeof resources) => Bun.deepEquals((await containerOf())?.resources, wanted);
    await pollUntil("the new resources", 10_000, () => runsWith(larger));
    expect(await containerOf()).toMatchObject({ allocatedResources: larger.requests, restartCount: 0 });
    expect((await containerOf())?.containerID).toBe(before?.containerID ?? "");
    expect(await cgroupFiles()).toEqual([128 * 2 ** 20, 20_000]);
    await pollUntil(
      "no PodResizeInProgress",
      10_000,
      async () => (await conditionOf("sized", "PodResizeInProgress")) === "",
    );
    // While another pod has what it asks for, it keeps what it has.
    await cluster.apply([barePod("filler", { resources: { requests: { cpu: "300m" } } })]);
    await kubectl("wait", "--for=condition=Ready", "pod/filler", "--timeout=180s");
    const most = { requests: { cpu: "1900m", memory: "32Mi" }, limits: { cpu: "2", memory: "128Mi" } };
    await resize(most);
    await kubectl("wait", "--for=condition=PodResizePending", "pod/sized", "--timeout=180s");
    expect(await conditionOf("sized", "PodResizePending")).toMatch(
      /^True Deferred Node didn't have enough resource: cpu, requested: 1900, used: \d+, capacity: \d+$/,
    );
    expect(await containerOf()).toMatchObject({ allocatedResources: larger.requests, resources: larger });
    await kubectl("delete", "pod", "filler", "--timeout=180s");
    await pollUntil("the deferred resources", 20_000, () => runsWith(most));
    await resize(resources);
    await pollUntil("the old resources", 20_000, () => runsWith(resources));
    expect(await cgroupFiles()).toEqual([64 * 2 ** 20, 10_000]);
    await pollUntil("no condition", 10_000, async () =>
      (
        await Promise.all([conditionOf("sized", "PodResizePending"), conditionOf("sized", "PodResizeInProgress")])
      ).every((condition) => condition === ""),
    );
    const events = await pollUntil("the events", 10_000, async () => {
      const all = parseDescribedEvents(await kubectl("describe", "pod", "sized"));
      const reasons = all.map(({ reason }) => reason).filter((reason) => reason.startsWith("Resize"));
      return reasons.filter((reason) => reason === "ResizeCompleted").length > 2 && reasons;
    });
    expect(events.toSorted()).toEqual([
      ...["ResizeCompleted", "ResizeCompleted", "ResizeCompleted", "ResizeDeferred"],
      ...["ResizeStarted", "ResizeStarted", "ResizeStarted"],
    ]);
    await deletePods("sized");
  });

  test("gets the environment variables of its namespace's Services, and the cluster's DNS", async () => {
    await kubectl("create", "service", "clusterip", "my-greeter", "--tcp=8080:80");
    const address = await kubectl("get", "service", "my-greeter", "--output=jsonpath={.spec.clusterIP}");
    const command = script("(env | grep ^MY_GREETER_ | sort; cat /etc/resolv.conf) > /dev/termination-log");
    await cluster.apply([barePod("curious", { command }, { restartPolicy: "Never" })]);
    await kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/curious", "--timeout=180s");
    const { message = "" } = (await cluster.pod("curious")).status?.containerStatuses?.[0]?.state?.terminated ?? {};
    const lines = message.trim().split("\n");
    expect(lines.filter((line) => line.startsWith("MY_GREETER"))).toEqual([
      `MY_GREETER_PORT=tcp://${address}:8080`,
      `MY_GREETER_PORT_8080_TCP=tcp://${address}:8080`,
      `MY_GREETER_PORT_8080_TCP_ADDR=${address}`,
      "MY_GREETER_PORT_8080_TCP_PORT=8080",
      "MY_GREETER_PORT_8080_TCP_PROTO=tcp",
      `MY_GREETER_SERVICE_HOST=${address}`,
      "MY_GREETER_SERVICE_PORT=8080",
      "MY_GREETER_SERVICE_PORT_8080_80=8080",
    ]);
    expect(lines).toContain("nameserver 10.191.0.10");
    expect(message).toMatch(/^search default\.svc\.cluster\.local svc\.cluster\.local cluster\.local\b/m);
    expect(message).toMatch(/^options .*\bndots:5\b/m);
    await kubectl("delete", "service", "my-greeter", "--timeout=180s");
    await deletePods("curious");
  });

  test("runs with the handler of its RuntimeClass, and an event names a missing handler", async () => {
    const classOf = (name: string, handler: string, more: object = {}) =>
      ({
        apiVersion: "node.k8s.io/v1",
        kind: "RuntimeClass",
        metadata: { name },
        handler,
        ...more,
      }) as unknown as Manifest;
    await cluster.apply([
      classOf("plain", "runc", { overhead: { podFixed: { cpu: "10m", memory: "8Mi" } } }),
      classOf("missing", "no-such-handler"),
    ]);
    await cluster.apply([
      barePod("classed", {}, { runtimeClassName: "plain" }),
      barePod("lost", {}, { runtimeClassName: "missing" }),
    ]);
    await kubectl("wait", "--for=condition=Ready", "pod/classed", "--timeout=180s");
    const sandboxes = await cluster.node.sandboxes();
    expect(sandboxes.map(({ metadata, runtimeHandler }) => [metadata?.name, runtimeHandler])).toEqual([
      ["classed", "runc"],
    ]);
    expect(await overheadOf(sandboxes[0]!.id)).toMatchObject({
      cpu_shares: 10,
      cpu_quota: 1_000,
      cpu_period: 100_000,
      memory_limit_in_bytes: 8 << 20,
    });
    const event = await pollUntil("an event about the handler", 20_000, async () => {
      const events = parseDescribedEvents(await kubectl("describe", "pod", "lost"));
      return events.find(({ reason }) => reason === "FailedCreatePodSandBox");
    });
    expect(event.message).toContain("no-such-handler");
    await deletePods("classed", "lost");
    await kubectl("delete", "runtimeclass", "plain", "missing", "--timeout=180s");
  });
});
