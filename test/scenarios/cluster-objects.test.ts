// What pods need from the cluster: the variables of Services, RuntimeClasses, unsupported volumes and DNS.
import { expect, test } from "bun:test";
import { runtimeClasses, services } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { settlePromises } from "../fakes/clock.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";

const inCluster = { isInCluster: true } as const;
const projected: Partial<PodSpec> = {
  volumes: [{ name: "kube-api-access-x", projected: { sources: [{ serviceAccountToken: { path: "token" } }] } }],
};

async function addService(harness: AgentHarness, namespace: string, name: string, clusterIP: string): Promise<void> {
  const spec = { clusterIP, ports: [{ port: 443 }] };
  await harness.kube.user.create(services(namespace), { metadata: { namespace, name }, spec });
  await settlePromises();
}

async function clusterWithServices(): Promise<AgentHarness> {
  const harness = await createHarness(inCluster);
  await addService(harness, "default", "kubernetes", "10.96.0.1");
  await addService(harness, "bank", "safe", "10.96.0.2");
  return harness;
}

/** The *_SERVICE_HOST variables of each container, in order of creation. */
function serviceHosts(harness: AgentHarness): readonly string[] {
  return [...harness.runtime.containers.values()].map(({ config }) => {
    const hosts = config.envs.filter(({ key }) => key.endsWith("_SERVICE_HOST"));
    const variables = hosts.map(({ key, value }) => `${key}=${new TextDecoder().decode(value)}`);
    return `${config.metadata?.name} #${config.metadata?.attempt} ${variables.join(" ")}`;
  });
}

/** Holds the watch of a resource until the returned function is called. */
function holdWatch(harness: AgentHarness, resource: string): () => void {
  const { promise, resolve } = Promise.withResolvers<void>();
  harness.kube.before.watch = (about) => (about === resource ? promise : undefined);
  return resolve;
}

const waitingReasons = (harness: AgentHarness) =>
  harness.podReports().map(({ status }) => {
    const { reason, message } = status.containerStatuses?.[0]?.state?.waiting ?? {};
    return `${reason}: ${message}`;
  });

test("a container gets the variables of the API server and of the Services in its namespace", async () => {
  const harness = await clusterWithServices();
  await harness.start();
  await harness.apply("web");
  await addService(harness, "default", "late", "10.96.0.3");
  await harness.apply("db");
  await harness.setManifests(makePod("static"));
  expect(serviceHosts(harness)).toEqual([
    "a #0 KUBERNETES_SERVICE_HOST=10.96.0.1",
    "a #0 KUBERNETES_SERVICE_HOST=10.96.0.1 LATE_SERVICE_HOST=10.96.0.3",
    "a #0 KUBERNETES_SERVICE_HOST=10.96.0.1 LATE_SERVICE_HOST=10.96.0.3",
  ]);
});

test("API pods wait for the first list of Services before they create containers; static pods do not", async () => {
  const harness = await clusterWithServices();
  const answer = holdWatch(harness, "services");
  await harness.start();
  await harness.apply("web");
  await harness.advance("5s");
  expect(waitingReasons(harness)).toEqual([
    "CreateContainerConfigError: services have not yet been read at least once, cannot construct envvars",
  ]);
  await harness.setManifests(makePod("static"));
  expect(serviceHosts(harness)).toEqual(["a #0 "]);
  answer();
  await settlePromises();
  expect(serviceHosts(harness)).toEqual(["a #0 ", "a #0 KUBERNETES_SERVICE_HOST=10.96.0.1"]);
  expect(await harness.events("web")).not.toContainEqual(expect.stringContaining("Warning"));
});

test("a node that starts without its API server uses the Services that the last agent knew", async () => {
  const harness = await clusterWithServices();
  await harness.start();
  await harness.apply("web");
  await harness.advance("5s");
  await harness.stop();
  harness.kube.goDown();
  await harness.exit("a", 1);
  await harness.start();
  await harness.advance("30s");
  expect(serviceHosts(harness).at(-1)).toBe("a #1 KUBERNETES_SERVICE_HOST=10.96.0.1");
});

test("a restarted agent whose API server answers waits for the list of Services before it restarts containers", async () => {
  const harness = await clusterWithServices();
  await harness.start();
  await harness.apply("web");
  await harness.advance("5s");
  await harness.stop();
  await harness.exit("a", 1);
  const answer = holdWatch(harness, "services");
  await harness.start();
  await harness.advance("25s");
  expect(serviceHosts(harness)).toHaveLength(1);
  await addService(harness, "default", "late", "10.96.0.3");
  answer();
  await settlePromises();
  expect(serviceHosts(harness).at(-1)).toBe("a #1 KUBERNETES_SERVICE_HOST=10.96.0.1 LATE_SERVICE_HOST=10.96.0.3");
});

test("a sandbox uses the handler of its RuntimeClass; classes are watched only once a pod needs one", async () => {
  const harness = await createHarness(inCluster);
  await harness.kube.user.create(runtimeClasses, { metadata: { name: "gvisor" }, handler: "runsc" });
  await harness.start();
  await harness.apply("plain");
  const isWatched = () => harness.kube.calls.some((call) => call.includes("runtimeclasses"));
  expect(isWatched()).toBe(false);
  await harness.apply("web", { runtimeClassName: "gvisor", overhead: { cpu: "250m" } });
  expect(await harness.apiPods()).toEqual(["plain Running, ready: a running", "web Running, ready: a running"]);
  expect([...harness.runtime.sandboxes.values()].map(({ runtimeHandler }) => runtimeHandler)).toEqual(["", "runsc"]);
  expect(isWatched()).toBe(true);
});

test("a pod with a RuntimeClass waits for the first list of classes and then starts at once", async () => {
  const harness = await createHarness(inCluster);
  await harness.kube.user.create(runtimeClasses, { metadata: { name: "gvisor" }, handler: "runsc" });
  const answer = holdWatch(harness, "runtimeclasses.node.k8s.io");
  await harness.start();
  await harness.apply("web", { runtimeClassName: "gvisor" });
  await harness.advance("5s");
  expect(waitingReasons(harness)).toEqual([
    "ContainerCreating: failed to lookup RuntimeClass gvisor: RuntimeClasses have not yet been read at least once",
  ]);
  answer();
  await settlePromises();
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
});

test("a missing RuntimeClass causes an event, and the pod starts after the class is created", async () => {
  const harness = await createHarness(inCluster);
  await harness.start();
  await harness.apply("web", { runtimeClassName: "gone" });
  await harness.advance("500ms");
  expect(waitingReasons(harness)).toEqual([
    'ContainerCreating: Failed to create pod sandbox: runtimeclass.node.k8s.io "gone" not found',
  ]);
  expect(await harness.events("web")).toEqual([
    '1x Warning FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io "gone" not found',
  ]);
  await harness.kube.user.create(runtimeClasses, { metadata: { name: "gone" }, handler: "runsc" });
  await harness.advance("15s");
  expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
});

test("a pod with a volume that lacks its driver waits with an event, and its deletion leaves nothing behind", async () => {
  const harness = await createHarness(inCluster);
  await harness.start();
  await harness.apply("web", { volumes: [{ name: "data", csi: { driver: "example.com" } }] });
  await harness.advance("2s");
  const lack =
    'MountVolume.SetUp failed for volume "data" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name example.com not found in the list of registered CSI drivers';
  expect(waitingReasons(harness)).toEqual([`ContainerCreating: ${lack}`]);
  expect(await harness.apiPods()).toEqual(["web Pending: a waiting ContainerCreating"]);
  expect(await harness.events("web")).toEqual([`2x Warning FailedMount: ${lack}`]);
  await harness.deletePod("web");
  await harness.advance("5s");
  expect([harness.nodeSnapshot(), await harness.apiPods(), harness.runtime.timeline]).toEqual([[], [], []]);
});

test("the token of a pod's volume is known until the pod ends, and never logged or written", async () => {
  const harness = await createHarness(inCluster);
  await harness.start();
  await harness.apply("web", projected);
  const objects = () => harness.agent.clusterSync!.objects;
  const [[key, token] = []] = objects().facts().tokens;
  expect([key, token]).toEqual([
    expect.stringMatching(/^token default\/default for web /),
    expect.objectContaining({ token: "token 1 of default for " }),
  ]);
  const [version] = objects().settings().tokenVersions.values();
  await harness.advance("48m");
  expect([...objects().facts().tokens.values()]).toMatchObject([{ token: "token 2 of default for " }]);
  expect(objects().settings().tokenVersions.get(key!)).not.toBe(version!);
  const paths = harness.disk.paths().filter((path) => path.endsWith(".json"));
  const files = await Promise.all(paths.map((path) => harness.disk.at("/").read(path, 1 << 20)));
  expect(files).not.toEqual([]);
  expect([...harness.log, ...(await harness.events("web")), ...files].join("\n")).not.toMatch(/token \d of/);
  await harness.deletePod("web");
  await harness.advance("5s");
  expect([objects().facts().tokens.size, objects().settings().tokenVersions.size]).toEqual([0, 0]);
});

test("an agent that starts again requests the token of a pod again", async () => {
  const harness = await createHarness(inCluster);
  await harness.start();
  await harness.apply("web", projected);
  await harness.stop();
  await harness.start();
  await harness.advance("1s");
  expect([...harness.agent.clusterSync!.objects.facts().tokens.values()]).toMatchObject([
    { token: "token 2 of default for " },
  ]);
});

test("without a configured cluster DNS a ClusterFirst pod gets the node's; pod and node get an event", async () => {
  const harness = await createHarness({ ...inCluster, clusterDNS: [] });
  await harness.start();
  await harness.apply("web");
  const missing =
    'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy. Falling back to "Default" policy.';
  const uid = harness.podReports()[0]?.pod.metadata.uid;
  expect((await harness.events("web"))[0]).toBe(`1x Warning MissingClusterDNS: pod: "web_default(${uid})". ${missing}`);
  expect(await harness.events("node")).toEqual([`1x Warning MissingClusterDNS: ${missing}`]);
  expect([...harness.runtime.sandboxes.values()].map(({ config }) => config.dnsConfig?.servers)).toEqual([
    ["192.0.2.53"],
  ]);
});

test("a ClusterFirst pod gets the cluster's DNS server and search domains", async () => {
  const harness = await createHarness(inCluster);
  await harness.start();
  await harness.apply("web");
  expect([...harness.runtime.sandboxes.values()].map(({ config }) => config.dnsConfig)).toEqual([
    {
      servers: ["192.0.2.10"],
      searches: ["default.svc.cluster.local", "svc.cluster.local", "cluster.local"],
      options: ["ndots:5"],
    },
  ]);
});
