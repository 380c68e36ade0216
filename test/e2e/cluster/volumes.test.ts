import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile, readlink, stat } from "node:fs/promises";
import { join } from "node:path";
import { createMounts } from "../../../host/fs/mounts.ts";
import type { Patch } from "../../../kube/client.ts";
import { configMaps, pods, secrets } from "../../../kube/resource.ts";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import { BUILD_TIMEOUT_MS, skipWithoutPrograms } from "../../upstream/programs.ts";
import { script } from "../manifest.ts";
import { linesContaining } from "../node.ts";
import { barePod, type Manifest } from "./api-objects.ts";
import { areContainersReady, type ClusterNode, parseDescribedEvents, startClusterNode } from "./node.ts";

setDefaultTimeout(600_000);

const skip = skipWithoutPrograms("volumes from Secrets, ConfigMaps, tokens and the pod itself");
const forever = "while true; do sleep 0.1; done";
const hasEnded = ({ status }: Pod) => status?.phase === "Succeeded" || status?.phase === "Failed";
const mounted = (name: string, mountPath: string): Partial<Container> => ({ volumeMounts: [{ name, mountPath }] });

describe.skipIf(skip !== undefined)("a pod of a cluster", () => {
  let cluster: ClusterNode;
  beforeAll(async () => {
    cluster = await startClusterNode();
  }, BUILD_TIMEOUT_MS);
  afterAll(() => cluster?.tearDown());

  const waitForPod = async (name: string, what: string, condition: (pod: Pod) => boolean) => {
    const [pod] = await cluster.waitForPods(what, name, (pods) => pods.length === 1 && pods.every(condition));
    return pod!;
  };
  /** The directory of a pod's volumes. */
  const volumesOf = ({ metadata: { uid = "" } }: Pod) => join(cluster.node.paths.agentRoot, "pods", uid, "volumes");
  /** The files that a container sees in a volume, once the test has read them as root on the node. */
  const readVolume = (pod: Pod, plugin: string, name: string, file: string) =>
    readFile(join(volumesOf(pod), `kubernetes.io~${plugin}`, name, file), "utf8");
  const eventsOf = async (name: string) =>
    parseDescribedEvents(await cluster.kubectl("describe", "pod", name)).map(
      ({ reason, message }) => `${reason}: ${message}`,
    );
  /** The open watches of ConfigMaps and Secrets, of all clients, by the API server's own count. */
  const objectWatches = async () => {
    const metrics = await cluster.kubectl("get", "--raw", "/metrics");
    const watches = metrics
      .split("\n")
      .filter((line) => /^apiserver_longrunning_requests\{.*resource="(configmaps|secrets)".*verb="WATCH"/.test(line));
    return watches.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  };
  const remove = async (...names: readonly string[]) => {
    await cluster.kubectl("delete", "pod", ...names, "--timeout=180s");
    await cluster.waitUntilEmpty();
    const { agentRoot } = cluster.node.paths;
    expect(await createMounts().mountPointsBelow(join(agentRoot, "pods"))).toEqual([]);
    expect(await readdir(join(agentRoot, "pods"))).toEqual([]);
  };

  test("gets the token of its service account, which the API server accepts, with the cluster's CA and its namespace", async () => {
    await cluster.kubectl(
      "wait",
      "--for=create",
      "serviceaccount/default",
      "configmap/kube-root-ca.crt",
      "--timeout=180s",
    );
    const { spec, ...rest } = barePod("usual");
    const { automountServiceAccountToken: _, ...usual } = spec;
    await cluster.apply([{ ...rest, spec: usual } as Manifest]);
    const pod = await waitForPod("usual", "it is up", areContainersReady);
    const volume = pod.spec.volumes?.[0]?.name ?? "";
    const [token, ca, namespace] = await Promise.all(
      ["token", "ca.crt", "namespace"].map((file) => readVolume(pod, "projected", volume, file)),
    );
    expect(namespace).toBe("default");
    expect(ca).toContain("BEGIN CERTIFICATE");
    const review = { apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", spec: { token } };
    const reviewed = JSON.parse(
      await cluster.plane.kubectl(["create", "--filename=-", "--output=json"], { input: JSON.stringify(review) }),
    );
    expect(reviewed.status.authenticated).toBe(true);
    expect(reviewed.status.user.username).toBe("system:serviceaccount:default:default");
    expect(reviewed.status.user.extra["authentication.kubernetes.io/pod-name"]).toEqual(["usual"]);
    expect(reviewed.status.user.extra["authentication.kubernetes.io/pod-uid"]).toEqual([pod.metadata.uid]);
    expect(linesContaining(await cluster.node.log(), token ?? "")).toEqual([]);
    await remove("usual");
  });

  test("sees an edited ConfigMap and Secret, and a changed label of its own, within two seconds", async () => {
    await cluster.kubectl("create", "configmap", "settings", "--from-literal=colour=blue");
    await cluster.kubectl("create", "secret", "generic", "settings", "--from-literal=word=old");
    const volumes: PodSpec["volumes"] = [
      {
        name: "all",
        projected: {
          sources: [
            { configMap: { name: "settings" } },
            { secret: { name: "settings" } },
            { downwardAPI: { items: [{ path: "labels", fieldRef: { fieldPath: "metadata.labels" } }] } },
          ],
        },
      },
    ];
    // The container ends when it sees all changes itself.
    const text = `until grep -q green /v/colour && grep -q new /v/word && grep -q 'tier="front"' /v/labels; do sleep 0.05; done; sleep 2`;
    const container = { ...mounted("all", "/v"), command: script(`${text}`) };
    await cluster.apply([barePod("watcher", container, { volumes, restartPolicy: "Never" })]);
    const pod = await waitForPod("watcher", "it is up", areContainersReady);
    const admin = createAdminClient(cluster.plane, "editor");
    const edited = Date.now();
    const edit = (body: Patch["body"]) => ({ type: "merge", body }) as const;
    await Promise.all([
      admin.patch(configMaps("default"), "settings", edit({ data: { colour: "green" } })),
      admin.patch(secrets("default"), "settings", edit({ stringData: { word: "new" } })),
      admin.patch(pods("default"), "watcher", edit({ metadata: { labels: { tier: "front" } } })),
    ]);
    admin.close();
    const written = await pollUntil("the new files", 10_000, async () => {
      const [colour, word, labels] = await Promise.all(
        ["colour", "word", "labels"].map((f) => readVolume(pod, "projected", "all", f)),
      );
      if (colour !== "green" || word !== "new" || !labels?.includes('tier="front"')) return undefined;
      return (await stat(join(volumesOf(pod), "kubernetes.io~projected", "all", "labels"))).mtimeMs;
    });
    console.log(`the edited objects were in the files ${Math.round(written - edited)} ms after the edits were sent`);
    expect(written).toBeGreaterThan(edited);
    expect(written - edited).toBeLessThan(2_000);
    await waitForPod("watcher", "it has seen them", hasEnded);
    await remove("watcher");
  });

  test("watches each object in use once, kube-root-ca.crt included, until its last pod is gone", async () => {
    await cluster.kubectl("create", "configmap", "watched", "--from-literal=key=value");
    await cluster.kubectl("create", "secret", "generic", "watched", "--from-literal=key=value");
    const before = await objectWatches();
    const volumes: PodSpec["volumes"] = [
      { name: "map", configMap: { name: "watched" } },
      { name: "keys", secret: { secretName: "watched" } },
    ];
    const container = { volumeMounts: volumes.map(({ name }) => ({ name, mountPath: `/${name}` })) };
    const isWatching = (count: number) =>
      pollUntil(`${count} watches`, 10_000, async () => (await objectWatches()) - before === count, 100);
    for (const name of ["first", "second"]) {
      await cluster.apply([barePod(name, container, { volumes, automountServiceAccountToken: true })]);
      await waitForPod(name, "it is up", areContainersReady);
      await isWatching(3);
    }
    await cluster.kubectl("delete", "pod", "first", "--timeout=180s");
    await isWatching(3);
    await remove("second");
    await isWatching(0);
  });

  test("waits for a missing Secret without a sandbox, starts when it is there, and keeps it when it is deleted", async () => {
    const volumes: PodSpec["volumes"] = [{ name: "keys", secret: { secretName: "keys", defaultMode: 0o400 } }];
    const spec = { volumes };
    await cluster.apply([barePod("first", mounted("keys", "/keys"), spec)]);
    const missing = 'FailedMount: MountVolume.SetUp failed for volume "keys" : secret "keys" not found';
    await pollUntil("the event", 20_000, async () => (await eventsOf("first")).includes(missing));
    expect((await cluster.runningUids()).sandboxes).toEqual([]);
    await cluster.kubectl("create", "secret", "generic", "keys", "--from-literal=key=hunter2-one");
    const pod = await waitForPod("first", "it is up", areContainersReady);
    const folder = join(volumesOf(pod), "kubernetes.io~secret", "keys");
    expect(await readFile(join(folder, "key"), "utf8")).toBe("hunter2-one");
    expect([await readlink(join(folder, "key")), (await stat(join(folder, "key"))).mode & 0o777]).toEqual([
      "..data/key",
      0o400,
    ]);
    const mounts = await createMounts().list();
    expect(mounts.find(({ mountPoint }) => mountPoint === folder)?.fsType).toBe("tmpfs");

    await cluster.kubectl("delete", "secret", "keys");
    await cluster.apply([barePod("second", mounted("keys", "/keys"), spec)]);
    await pollUntil("the event", 20_000, async () => (await eventsOf("second")).includes(missing));
    expect(await readFile(join(folder, "key"), "utf8")).toBe("hunter2-one");
    expect(areContainersReady(await cluster.pod("first"))).toBe(true);
    expect(linesContaining(await cluster.node.log(), "hunter2-")).toEqual([]);
    await remove("first", "second");
  });

  test("has read-only content volumes and an emptyDir in memory of a limited size", async () => {
    await cluster.kubectl("create", "configmap", "site", "--from-literal=a=one", "--from-literal=b=two");
    const volumes: PodSpec["volumes"] = [
      { name: "site", configMap: { name: "site", items: [{ key: "a", path: "deep/a", mode: 0o640 }] } },
      { name: "scratch", emptyDir: { medium: "Memory", sizeLimit: "1Mi" } },
    ];
    const text = [
      "cat /site/deep/a",
      "stat -L -c '%a %u:%g' /site/deep/a",
      "touch /site/x 2>&1",
      "stat -f -c '%T' /scratch",
      "dd if=/dev/zero of=/scratch/big bs=1M count=2 2>&1 | grep -o 'No space left on device'",
    ].join("; ");
    const container = {
      command: script(`(${text}) > /dev/termination-log; exit 0`),
      volumeMounts: [
        { name: "site", mountPath: "/site" },
        { name: "scratch", mountPath: "/scratch" },
      ],
    };
    await cluster.apply([barePod("views", container, { volumes, restartPolicy: "Never" })]);
    const pod = await waitForPod("views", "it has ended", hasEnded);
    expect(pod.status?.containerStatuses?.[0]?.state?.terminated?.message?.split("\n")).toEqual([
      "one640 0:0",
      "touch: /site/x: Read-only file system",
      "tmpfs",
      "No space left on device",
      "",
    ]);
    await remove("views");
  });

  test("keeps its volumes over kill -9 of the agent, and the next agent updates and removes them", async () => {
    const volumes: PodSpec["volumes"] = [
      { name: "keys", secret: { secretName: "again" } },
      { name: "site", configMap: { name: "site" } },
    ];
    await cluster.kubectl("create", "secret", "generic", "again", "--from-literal=key=hunter2-one");
    const container = { ...mounted("keys", "/keys"), command: script(forever) };
    await cluster.apply([barePod("kept", container, { volumes, terminationGracePeriodSeconds: 1 })]);
    const pod = await waitForPod("kept", "it is up", areContainersReady);
    await cluster.node.agent.kill9();
    await cluster.kubectl(
      "patch",
      "secret",
      "again",
      "--patch",
      JSON.stringify({ stringData: { key: "hunter2-two" } }),
    );
    expect(await readVolume(pod, "secret", "keys", "key")).toBe("hunter2-one");
    await cluster.node.launchAgent();
    await pollUntil(
      "the new value",
      10_000,
      async () => (await readVolume(pod, "secret", "keys", "key")) === "hunter2-two",
    );
    const { containerStatuses: [status] = [] } = (await cluster.pod("kept")).status ?? {};
    expect(status?.restartCount).toBe(0);
    await remove("kept");
  });
});
