import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { podUidLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { busyboxImage, webImage, webPage } from "../../bed/images/images.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import type { KubectlVersion } from "../../upstream/control-plane.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { script, upIgnoringSigterm } from "../manifest.ts";
import { waitForOutput } from "../node.ts";
import { barePod, daemonSet, deployment, job, podSpec } from "./api-objects.ts";
import { MANY_PODS } from "./many-pods.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode, uidsOf } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("workloads of a cluster on its node");

describe.skipIf(skip !== undefined)("on a node of a cluster", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  describe.each<KubectlVersion>(["1.36", "1.32"])("by kubectl %s", (version) => {
    const name = `web-${version.replace(".", "-")}`;
    const kubectl = (...args: readonly string[]) => cluster.plane.kubectl(args, { version });
    const rolledOut = () => kubectl("rollout", "status", `deployment/${name}`, "--timeout=180s");
    const webSpec = podSpec({ image: webImage, command: [] }, { terminationGracePeriodSeconds: 600 });

    test("a deployment of ten runs ten pods, each with its own address", async () => {
      await cluster.apply([deployment(name, 10, webSpec)], version);
      await rolledOut();
      const pods = await cluster.waitForPods("ten are up", name, (all) => all.filter(areContainersReady).length === 10);
      const addresses = pods.map(({ status }) => status?.podIP ?? "");
      expect(new Set(addresses).size).toBe(10);
      const network = cluster.node.containerd.subnet.replace("0/24", "");
      expect(addresses.filter((address) => !address.startsWith(network))).toEqual([]);
      // A container is running before its server listens.
      const page = await pollUntil("a page", 10_000, () =>
        fetch(`http://${addresses[0]}:8080/`).then(
          (answer) => answer.text(),
          () => undefined,
        ),
      );
      expect(page).toBe(webPage);

      const table = await kubectl("get", "pods", `--selector=app=${name}`, "--output=wide", "--no-headers");
      for (const row of table.split("\n"))
        expect(row).toMatch(/^web-\S+ +1\/1 +Running +0 +(\d+m(\d+s)?|\d+s) +10\.[\d.]+ +node-a +<none> +<none>$/);
      expect((await cluster.runningUids()).containers).toEqual(uidsOf(pods));
      const listed = (await cluster.node.pods()).map(
        (pod) => `${pod.namespace}/${pod.name} ${pod.phase} ${pod.ready} ${pod.ip}`,
      );
      const shown = pods.map(({ metadata, status }) => `default/${metadata.name} Running 1/1 ${status?.podIP}`);
      expect(listed.toSorted()).toEqual(shown.toSorted());
    });

    test("kubectl describe shows the events of each start step in order", async () => {
      for (const { metadata } of await cluster.pods(name)) {
        const events = await pollUntil("the event of its start", 10_000, async () => {
          const reported = parseDescribedEvents(await kubectl("describe", "pod", metadata.name ?? ""));
          return reported.some(({ reason }) => reason === "Started") && reported;
        });
        expect(events.map(({ type, reason, from }) => `${type} ${reason} ${from}`)).toEqual([
          "Normal Scheduled default-scheduler",
          "Normal Pulled kubelet",
          "Normal Created kubelet",
          "Normal Started kubelet",
        ]);
      }
    });

    test("a deployment scaled to three has only three pods in the API and in the runtime", async () => {
      await kubectl("scale", `deployment/${name}`, "--replicas=3");
      const pods = await cluster.waitForPods("three are left", name, (all) => all.length === 3);
      await pollUntil("three on the node", 10_000, async () => (await cluster.node.sandboxes()).length === 3);
      expect(pods.every(areContainersReady)).toBe(true);
      expect(await cluster.runningUids()).toEqual({ containers: uidsOf(pods), sandboxes: uidsOf(pods) });
    });

    test("kubectl rollout restart replaces each pod", async () => {
      const before = uidsOf(await cluster.pods(name));
      await kubectl("rollout", "restart", `deployment/${name}`);
      await rolledOut();
      const after = await cluster.waitForPods("three are left", name, (all) => all.length === 3);
      expect(after.every(areContainersReady)).toBe(true);
      expect(uidsOf(after).filter((uid) => before.includes(uid))).toEqual([]);
      await pollUntil("three on the node", 10_000, async () => (await cluster.node.sandboxes()).length === 3);
      expect(await cluster.runningUids()).toEqual({ containers: uidsOf(after), sandboxes: uidsOf(after) });
    });

    test("a deleted deployment whose containers end on SIGTERM is gone long before the grace period", async () => {
      await kubectl("delete", "deployment", name, "--cascade=foreground", "--timeout=180s");
      await cluster.waitUntilEmpty();
    });
  });

  test("a pod that ignores SIGTERM stays in the API for its grace period, and nothing of it runs after that", async () => {
    await cluster.apply([barePod("stubborn", { command: upIgnoringSigterm })]);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod/stubborn", "--timeout=180s");
    const running = (await cluster.node.pods()).find(({ name }) => name === "stubborn");
    await waitForOutput(cluster.node, running!, "up");
    const started = performance.now();
    await cluster.kubectl("delete", "pod", "stubborn", "--grace-period=15", "--wait=false");
    const leaving = await cluster.pod("stubborn");
    expect(leaving.metadata.deletionGracePeriodSeconds).toBe(15);
    expect(leaving.status?.phase).toBe("Running");
    await cluster.kubectl("wait", "--for=delete", "pod/stubborn", "--timeout=180s");
    expect(await cluster.runningUids()).toEqual({ containers: [], sandboxes: [] });
    expect(performance.now() - started).toBeGreaterThan(14_900);
    await cluster.waitUntilEmpty();
  });

  /** Runs kubectl 1.32, so that both versions create, wait for and delete objects of the other. */
  const older = (...args: readonly string[]) => cluster.plane.kubectl(args, { version: "1.32" });

  test("a job completes, and a failed job has the exit code and reason of its pod", async () => {
    await cluster.apply([job("right", 3, { command: script("exit 0") })]);
    await cluster.apply([job("wrong", 1, { command: script("exit 3") })], "1.32");
    await older("wait", "--for=condition=complete", "job/right", "--timeout=180s");
    await cluster.kubectl("wait", "--for=condition=failed", "job/wrong", "--timeout=180s");
    const [right, wrong] = [await cluster.pods("right"), await cluster.pods("wrong")];
    const ends = [...right, ...wrong].map(({ status }) => {
      const { exitCode, reason } = status?.containerStatuses?.[0]?.state?.terminated ?? {};
      return `${status?.phase} ${exitCode} ${reason}`;
    });
    const completed = "Succeeded 0 Completed";
    expect(ends).toEqual([completed, completed, completed, "Failed 3 Error"]);
    await older("delete", "job", "right", "--timeout=180s");
    await cluster.kubectl("delete", "job", "wrong", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("a job with a sidecar completes, and the sidecar starts before and ends after its container", async () => {
    const notes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
    const side: Container = {
      ...{ name: "side", image: busyboxImage, restartPolicy: "Always", ...notes },
      command: ["sh", "-c", "trap 'exit 0' TERM; sleep 1; touch /notes/up; while true; do sleep 0.1; done"],
      startupProbe: {
        exec: { command: ["test", "-e", "/notes/up"] },
        periodSeconds: 1,
        timeoutSeconds: 30,
        failureThreshold: 30,
      },
    };
    const spec = { initContainers: [side], volumes: [{ name: "notes", emptyDir: {} }] };
    await cluster.apply([job("served", 1, { command: script("test -e /notes/up"), ...notes }, spec)]);
    await cluster.kubectl("wait", "--for=condition=complete", "job/served", "--timeout=180s");
    const [pod] = await cluster.pods("served");
    const { initContainerStatuses = [], containerStatuses = [], phase } = pod?.status ?? {};
    const [sidecar, main] = [...initContainerStatuses, ...containerStatuses].map(({ state }) => state?.terminated);
    expect([phase, main?.exitCode, sidecar?.exitCode]).toEqual(["Succeeded", 0, 0]);
    expect(Date.parse(sidecar?.startedAt ?? "")).toBeLessThanOrEqual(Date.parse(main?.startedAt ?? ""));
    expect(Date.parse(sidecar?.finishedAt ?? "")).toBeGreaterThanOrEqual(Date.parse(main?.finishedAt ?? ""));
    await cluster.kubectl("delete", "job", "served", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("a daemon set runs its pod on the node and can replace it", async () => {
    await cluster.apply([daemonSet("everywhere")], "1.32");
    const rolledOut = () => cluster.kubectl("rollout", "status", "daemonset/everywhere", "--timeout=180s");
    await rolledOut();
    const [first] = await cluster.waitForPods(
      "one is up",
      "everywhere",
      (all) => all.filter(areContainersReady).length === 1,
    );
    expect(first?.spec.nodeName).toBe("node-a");
    await older("rollout", "restart", "daemonset/everywhere");
    await rolledOut();
    const after = await cluster.waitForPods(
      "one is up",
      "everywhere",
      (all) => all.filter(areContainersReady).length === 1,
    );
    expect(uidsOf(after)).not.toContain(first?.metadata.uid);
    await older("delete", "daemonset", "everywhere", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("the pod of kubectl run, which has a service account token, runs without a warning and can be deleted", async () => {
    await cluster.kubectl("run", "official", `--image=${webImage}`);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod/official", "--timeout=180s");
    const events = parseDescribedEvents(await cluster.kubectl("describe", "pod", "official"));
    expect(events.filter(({ type }) => type !== "Normal")).toEqual([]);
    await cluster.kubectl("delete", "pod", "official", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("a deployment with an unsupported feature has one pod that waits with an event, not a series of failed pods", async () => {
    const volumes = [{ name: "notes", iscsi: { targetPortal: "192.0.2.1", iqn: "iqn.2026-01.test:a", lun: 0 } }];
    const volumeMounts = [{ name: "notes", mountPath: "/notes" }];
    await cluster.apply([deployment("partial", 1, podSpec({ volumeMounts }, { volumes }))]);
    const mountEvent = await pollUntil("an event about the mount", 20_000, async () => {
      const events = await cluster.kubectl("get", "events", "--field-selector=reason=FailedMount", "-o", "json");
      const { items } = JSON.parse(events) as { items: { message: string; involvedObject: { name: string } }[] };
      return items.find(({ involvedObject }) => involvedObject.name.startsWith("partial-"));
    });
    expect(mountEvent.message).toBe(
      'MountVolume.SetUp failed for volume "notes" : iscsi volumes are not supported by this release yet',
    );
    expect((await cluster.pods("partial")).map(({ status }) => status?.phase)).toEqual(["Pending"]);
    await cluster.kubectl("delete", "deployment", "partial", "--cascade=foreground", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test("kubectl debug adds ephemeral containers that see the pod's processes, and the pod keeps running", async () => {
    await cluster.apply([barePod("watched", { command: script("exec sleep 1000000") })]);
    await cluster.kubectl("wait", "--for=condition=Ready", "pod/watched", "--timeout=180s");
    const before = (await cluster.pod("watched")).status?.containerStatuses;
    const debugArgs = (name: string) => [
      ...["debug", "watched", `--image=${busyboxImage}`, "--target=main", `--container=${name}`, "--"],
      ...script("ps > /dev/termination-log; exit 3"),
    ];
    await cluster.kubectl(...debugArgs("first"));
    await older(...debugArgs("second"));
    const ends = await pollUntil("both have looked", 20_000, async () => {
      const { ephemeralContainerStatuses = [] } = (await cluster.pod("watched")).status ?? {};
      const ended = ephemeralContainerStatuses.flatMap(({ name, state }) => {
        const { exitCode, message = "" } = state?.terminated ?? {};
        return exitCode === undefined ? [] : [{ name, exitCode, sees: message.includes("sleep 1000000") }];
      });
      return ended.length === 2 && ended;
    });
    expect(ends).toEqual(["first", "second"].map((name) => ({ name, exitCode: 3, sees: true })));
    const after = (await cluster.pod("watched")).status;
    expect(after?.containerStatuses).toEqual(before!);
    expect(after?.phase).toBe("Running");
    const fieldPaths = await cluster.kubectl("get", "events", "-o", "jsonpath={.items[*].involvedObject.fieldPath}");
    expect(fieldPaths).toContain("spec.ephemeralContainers{first}");
    await cluster.kubectl("delete", "pod", "watched", "--timeout=180s");
    await cluster.waitUntilEmpty();
  });

  test(`${MANY_PODS} pods start at once and are all removed`, async () => {
    await cluster.apply([deployment("crowd", MANY_PODS)], "1.32");
    await older("rollout", "status", "deployment/crowd", "--timeout=180s");
    const pods = await cluster.waitForPods(
      "all are up",
      "crowd",
      (all) => all.filter(areContainersReady).length === MANY_PODS,
    );
    expect(new Set(pods.map(({ status }) => status?.podIP)).size).toBe(MANY_PODS);
    expect(await cluster.runningUids()).toEqual({ containers: uidsOf(pods), sandboxes: uidsOf(pods) });
    const containers = await cluster.node.containers();
    expect(containers.map(({ labels }) => labels[podUidLabel] ?? "").toSorted()).toEqual(uidsOf(pods));
    await cluster.kubectl("delete", "deployment", "crowd", "--cascade=foreground", "--timeout=180s");
    await cluster.waitUntilEmpty();
  }, 600_000);
});
