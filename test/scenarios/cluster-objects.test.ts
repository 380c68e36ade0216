// What pods are told of the cluster, and wait for: Services, RuntimeClasses, volumes that this release does not have, DNS.
import { expect, test } from "bun:test";
import { runtimeClasses, services } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { rest } from "../fakes/clock.ts";
import { createStage, makePod, type Stage } from "./harness.ts";

const inCluster = { isInCluster: true } as const;
const projected: Partial<PodSpec> = {
  volumes: [{ name: "kube-api-access-x", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } }],
};

async function addService(stage: Stage, namespace: string, name: string, clusterIP: string): Promise<void> {
  const spec = { clusterIP, ports: [{ port: 443 }] };
  await stage.kube.user.create(services(namespace), { metadata: { namespace, name }, spec });
  await rest();
}

async function clusterWithServices(): Promise<Stage> {
  const stage = await createStage(inCluster);
  await addService(stage, "default", "kubernetes", "10.96.0.1");
  await addService(stage, "bank", "safe", "10.96.0.2");
  return stage;
}

/** The hosts that each container was told of, in the order of their making. */
function hostsTold(stage: Stage): readonly string[] {
  return [...stage.runtime.containers.values()].map(({ config }) => {
    const hosts = config.envs.filter(({ key }) => key.endsWith("_SERVICE_HOST"));
    const told = hosts.map(({ key, value }) => `${key}=${new TextDecoder().decode(value)}`);
    return `${config.metadata?.name} #${config.metadata?.attempt} ${told.join(" ")}`;
  });
}

/** Keeps one watch from being answered until the function that it gives back is called. */
function hangWatch(stage: Stage, resource: string): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  stage.kube.before.watch = (about) => (about === resource ? promise : undefined);
  return resolve;
}

const waitsFor = (stage: Stage) =>
  stage.pods().map(({ status }) => {
    const { reason, message } = status.containerStatuses?.[0]?.state?.waiting ?? {};
    return `${reason}: ${message}`;
  });

test("a container is told of the API server, and of the Services of its namespace", async () => {
  const stage = await clusterWithServices();
  await stage.start();
  await stage.apply("web");
  await addService(stage, "default", "late", "10.96.0.3");
  await stage.apply("db");
  await stage.offer(makePod("static"));
  expect(hostsTold(stage)).toEqual([
    "a #0 KUBERNETES_SERVICE_HOST=10.96.0.1",
    "a #0 KUBERNETES_SERVICE_HOST=10.96.0.1 LATE_SERVICE_HOST=10.96.0.3",
    "a #0 KUBERNETES_SERVICE_HOST=10.96.0.1 LATE_SERVICE_HOST=10.96.0.3",
  ]);
});

test("before the Services were read no pod of the API creates a container, and then at once; a static pod does", async () => {
  const stage = await clusterWithServices();
  const answer = hangWatch(stage, "services");
  await stage.start();
  await stage.apply("web");
  await stage.advance("5s");
  expect(waitsFor(stage)).toEqual([
    "CreateContainerConfigError: services have not yet been read at least once, cannot construct envvars",
  ]);
  await stage.offer(makePod("static"));
  expect(hostsTold(stage)).toEqual(["a #0 "]);
  answer();
  await rest();
  expect(hostsTold(stage)).toEqual(["a #0 ", "a #0 KUBERNETES_SERVICE_HOST=10.96.0.1"]);
  expect(await stage.events("web")).not.toContainEqual(expect.stringContaining("Warning"));
});

test("a node that starts without its API server tells its pods what the last agent knew", async () => {
  const stage = await clusterWithServices();
  await stage.start();
  await stage.apply("web");
  await stage.advance("5s");
  await stage.stop();
  stage.kube.goDown();
  await stage.exit("a", 1);
  await stage.start();
  await stage.advance("30s");
  expect(hostsTold(stage).at(-1)).toBe("a #1 KUBERNETES_SERVICE_HOST=10.96.0.1");
});

test("but where the API server is heard, what it says of Services is waited for", async () => {
  const stage = await clusterWithServices();
  await stage.start();
  await stage.apply("web");
  await stage.advance("5s");
  await stage.stop();
  await stage.exit("a", 1);
  const answer = hangWatch(stage, "services");
  await stage.start();
  await stage.advance("25s");
  expect(hostsTold(stage)).toHaveLength(1);
  await addService(stage, "default", "late", "10.96.0.3");
  answer();
  await rest();
  expect(hostsTold(stage).at(-1)).toBe("a #1 KUBERNETES_SERVICE_HOST=10.96.0.1 LATE_SERVICE_HOST=10.96.0.3");
});

test("a sandbox is run by the handler of its class, which nobody asks for before", async () => {
  const stage = await createStage(inCluster);
  await stage.kube.user.create(runtimeClasses, { metadata: { name: "gvisor" }, handler: "runsc" });
  await stage.start();
  await stage.apply("plain");
  const isAsked = () => stage.kube.calls.some((call) => call.includes("runtimeclasses"));
  expect(isAsked()).toBe(false);
  await stage.apply("web", { runtimeClassName: "gvisor", overhead: { cpu: "250m" } });
  expect(await stage.shown()).toEqual(["plain Running, ready: a running", "web Running, ready: a running"]);
  expect([...stage.runtime.sandboxes.values()].map(({ runtimeHandler }) => runtimeHandler)).toEqual(["", "runsc"]);
  expect(isAsked()).toBe(true);
});

test("before the classes were read no sandbox of one is run, and then at once", async () => {
  const stage = await createStage(inCluster);
  await stage.kube.user.create(runtimeClasses, { metadata: { name: "gvisor" }, handler: "runsc" });
  const answer = hangWatch(stage, "runtimeclasses.node.k8s.io");
  await stage.start();
  await stage.apply("web", { runtimeClassName: "gvisor" });
  await stage.advance("5s");
  expect(waitsFor(stage)).toEqual([
    "ContainerCreating: failed to lookup RuntimeClass gvisor: RuntimeClasses have not yet been read at least once",
  ]);
  answer();
  await rest();
  expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
});

test("a class that the cluster does not have is told of, and waited for", async () => {
  const stage = await createStage(inCluster);
  await stage.start();
  await stage.apply("web", { runtimeClassName: "gone" });
  await stage.advance("500ms");
  expect(waitsFor(stage)).toEqual([
    'ContainerCreating: Failed to create pod sandbox: runtimeclass.node.k8s.io "gone" not found',
  ]);
  expect(await stage.events("web")).toEqual([
    '1x Warning FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io "gone" not found',
  ]);
  await stage.kube.user.create(runtimeClasses, { metadata: { name: "gone" }, handler: "runsc" });
  await stage.advance("15s");
  expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
});

test("a pod with a volume that this release does not have waits and says so, and leaves nothing when it is deleted", async () => {
  const stage = await createStage(inCluster);
  await stage.start();
  await stage.apply("web", projected);
  await stage.advance("2s");
  const lack =
    'MountVolume.SetUp failed for volume "kube-api-access-x" : projected volumes are not supported by this release yet';
  expect(waitsFor(stage)).toEqual([`ContainerCreating: ${lack}`]);
  expect(await stage.shown()).toEqual(["web Pending: a waiting ContainerCreating"]);
  expect(await stage.events("web")).toEqual([`2x Warning FailedMount: ${lack}`]);
  await stage.remove("web");
  await stage.advance("5s");
  expect([stage.scene(), await stage.shown(), stage.runtime.timeline]).toEqual([[], [], []]);
});

test("a pod that asks for the cluster's DNS where it has none gets the node's, and both are told", async () => {
  const stage = await createStage({ ...inCluster, clusterDNS: [] });
  await stage.start();
  await stage.apply("web");
  const missing =
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.';
  const uid = stage.pods()[0]?.pod.metadata.uid;
  expect((await stage.events("web"))[0]).toBe(`1x Warning MissingClusterDNS: pod: "web_default(${uid})". ${missing}`);
  expect(await stage.events("node")).toEqual([`1x Warning MissingClusterDNS: ${missing}`]);
  expect([...stage.runtime.sandboxes.values()].map(({ config }) => config.dnsConfig?.servers)).toEqual([
    ["192.0.2.53"],
  ]);
});

test("a pod of a cluster with a DNS asks that", async () => {
  const stage = await createStage(inCluster);
  await stage.start();
  await stage.apply("web");
  expect([...stage.runtime.sandboxes.values()].map(({ config }) => config.dnsConfig)).toEqual([
    {
      servers: ["192.0.2.10"],
      searches: ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"],
      options: ["ndots:5"],
    },
  ]);
});
