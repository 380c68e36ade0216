/*
 * https://kubernetes.io/docs/concepts/workloads/pods/downward-api/
 * https://kubernetes.io/docs/tasks/inject-data-application/downward-api-volume-expose-pod-information/
 * https://kubernetes.io/docs/tasks/inject-data-application/environment-variable-expose-pod-information/
 *
 * Not tested here, since it concerns others or is not implemented:
 *   Available fields   which other fields may be named: the API server. Huge pages, which the fake node lacks:
 *                      agent/translate/env/environment.test.ts
 */
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { Container, DownwardAPIVolumeFile, EnvVar, Pod } from "../../proto/kubernetes/gen/types.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import { container, describeSection, runPod, statusOf } from "./pod-case.ts";
import { environmentOf, modesIn, placeOf, textsIn } from "./volume-view.ts";

const fileOf = (path: string, fieldPath: string, mode?: number): DownwardAPIVolumeFile => ({
  path,
  fieldRef: { fieldPath },
  ...(mode !== undefined && { mode }),
});
const amountOf = (path: string, resource: string, divisor?: string): DownwardAPIVolumeFile => ({
  path,
  resourceFieldRef: { containerName: "a", resource, ...(divisor !== undefined && { divisor }) },
});
const variable = (name: string, fieldPath: string): EnvVar => ({ name, valueFrom: { fieldRef: { fieldPath } } });
const podinfo = (...items: readonly DownwardAPIVolumeFile[]) => ({
  volumes: [{ name: "podinfo", downwardAPI: { items } }],
});

const metadata: Pick<Pod["metadata"], "annotations" | "labels"> = {
  labels: { zone: "us-est-coast", cluster: "test-cluster1", rack: "rack-22" },
  annotations: { builder: "john-doe", build: "two", quoted: 'a "b"\n' },
};
const uidOf = async (harness: AgentHarness) =>
  (await harness.kube.user.list(pods("default"), {})).items[0]?.metadata.uid ?? "";

const commonFields = [
  ["name", "metadata.name"],
  ["namespace", "metadata.namespace"],
  ["uid", "metadata.uid"],
  ["annotation", "metadata.annotations['build']"],
  ["label", "metadata.labels['zone']"],
] as const;

describeSection("Information available via fieldRef", () => {
  test("fields that environment variables and files of a volume can have", async () => {
    const containers = [
      container("a", {
        env: commonFields.map(([name, path]) => variable(name, path)),
        volumeMounts: [{ name: "podinfo", mountPath: "/podinfo" }],
      }),
    ];
    const spec = { ...podinfo(...commonFields.map(([name, path]) => fileOf(name, path))), containers };
    const { harness } = await runPod({ spec, metadata });
    const values = {
      name: "web",
      namespace: "default",
      uid: await uidOf(harness),
      annotation: "two",
      label: "us-est-coast",
    };
    expect(environmentOf(harness)).toMatchObject(values);
    expect(await textsIn(harness)).toEqual(
      Object.fromEntries(Object.entries(values).map(([name, value]) => [`/podinfo/${name}`, value])),
    );
  });

  test("fields that only environment variables can have", async () => {
    const env = [
      variable("ACCOUNT", "spec.serviceAccountName"),
      variable("NODE", "spec.nodeName"),
      variable("HOST", "status.hostIP"),
      variable("HOSTS", "status.hostIPs"),
      variable("POD", "status.podIP"),
      variable("PODS", "status.podIPs"),
    ];
    const { harness } = await runPod({
      spec: { serviceAccountName: "default", containers: [container("a", { env })] },
    });
    const { hostIP = "", podIP = "" } = await statusOf(harness);
    expect(environmentOf(harness)).toMatchObject({
      ACCOUNT: "default",
      NODE: "node",
      HOST: hostIP,
      HOSTS: hostIP,
      POD: podIP,
      PODS: podIP,
    });
    expect(podIP).not.toBe("");
  });

  test("all labels and annotations, one on each line, with escaped values, only in a volume", async () => {
    const { harness } = await runPod({
      spec: podinfo(fileOf("labels", "metadata.labels"), fileOf("annotations", "metadata.annotations")),
      metadata,
    });
    const texts = await textsIn(harness);
    expect(texts["/podinfo/labels"]).toBe('cluster="test-cluster1"\nrack="rack-22"\nzone="us-est-coast"');
    // The agent adds where it has the pod from.
    expect(texts["/podinfo/annotations"]?.split("\n").filter((line) => !line.startsWith("kubernetes.io/"))).toEqual([
      'build="two"',
      'builder="john-doe"',
      String.raw`quoted="a \"b\"\n"`,
    ]);
  });
});

const amounts: NonNullable<Container["resources"]> = {
  requests: { cpu: "250m", memory: "32Mi", "ephemeral-storage": "1Gi" },
  limits: { cpu: "500m", memory: "64Mi", "ephemeral-storage": "2Gi" },
};
const withAmounts = (items: readonly DownwardAPIVolumeFile[], resources: Container["resources"] = amounts) => ({
  ...podinfo(...items),
  containers: [
    container("a", {
      ...(resources && { resources }),
      env: items.map(({ path, resourceFieldRef }) => ({
        name: path,
        valueFrom: { resourceFieldRef: { ...resourceFieldRef, resource: resourceFieldRef?.resource ?? "" } },
      })),
      volumeMounts: [{ name: "podinfo", mountPath: "/podinfo" }],
    }),
  ],
});

describeSection("Information available via resourceFieldRef", () => {
  test.each([
    ["limits.cpu", "1m", "500"],
    ["requests.cpu", "1m", "250"],
    ["limits.memory", "1Mi", "64"],
    ["requests.memory", "1Mi", "32"],
    ["limits.ephemeral-storage", "1Gi", "2"],
    ["requests.ephemeral-storage", "1Gi", "1"],
  ])("a container's %s in units of %s is %s, in a variable and in a file", async (resource, divisor, value) => {
    const { harness } = await runPod({ spec: withAmounts([amountOf("amount", resource, divisor)]) });
    expect([environmentOf(harness)["amount"], await textsIn(harness)]).toEqual([value, { "/podinfo/amount": value }]);
  });

  test("after a resize, a file of a volume has the new amount, and a variable keeps the old one", async () => {
    const regressions = [{ pod: "web", label: "PodResizeInProgress", rule: "condition", why: "The resize is done." }];
    const { harness } = await runPod({
      spec: withAmounts([amountOf("amount", "limits.cpu", "1m")]),
      options: { regressions },
    });
    const [resized] = (await harness.kube.user.get(pods("default"), "web")).spec.containers;
    const { requests, limits } = resized?.resources ?? {};
    const containers = [{ ...resized, resources: { requests, limits: { ...limits, cpu: "750m" } } }];
    await harness.kube.user.patch(pods("default"), "web", { type: "merge", body: { spec: { containers } } });
    await harness.advance("5s");
    expect([environmentOf(harness)["amount"], await textsIn(harness)]).toEqual(["500", { "/podinfo/amount": "750" }]);
  });
});

describeSection("Fallback information for resource limits", () => {
  test("without limits, those of CPU and memory are the node's allocatable amounts", async () => {
    const items = [amountOf("cpu", "limits.cpu"), amountOf("memory", "limits.memory")];
    const { harness } = await runPod({ spec: withAmounts(items, {}) });
    // What the fake node can allocate.
    const allocatable = { cpu: "2", memory: String(2 ** 33) };
    expect(environmentOf(harness)).toMatchObject(allocatable);
    expect(await textsIn(harness)).toEqual({ "/podinfo/cpu": "2", "/podinfo/memory": allocatable.memory });
  });
});

describeSection("Store Pod fields", () => {
  const spec = podinfo(fileOf("labels", "metadata.labels"), fileOf("annotations", "metadata.annotations"));

  test("the files are in a temporary subdirectory, ..data links to it, and each name links to ..data", async () => {
    const { harness } = await runPod({ spec, metadata });
    const { hostPath } = placeOf(harness, "/podinfo");
    const root = harness.disk.at("/");
    const folder = (await root.readLink(`${hostPath}/..data`)) ?? "";
    expect(folder).toMatch(/^\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+$/);
    expect(await root.list(hostPath)).toEqual([
      { name: folder, kind: "directory" },
      { name: "..data", kind: "symlink" },
      { name: "annotations", kind: "symlink" },
      { name: "labels", kind: "symlink" },
    ]);
    expect(await root.readLink(`${hostPath}/labels`)).toBe("..data/labels");
    expect(await root.list(`${hostPath}/${folder}`)).toEqual([
      { name: "annotations", kind: "file" },
      { name: "labels", kind: "file" },
    ]);
  });

  test("updates are written to a new directory, and ..data is replaced atomically by a rename", async () => {
    const { harness } = await runPod({ spec, metadata });
    const { hostPath } = placeOf(harness, "/podinfo");
    const before = await harness.disk.at("/").readLink(`${hostPath}/..data`);
    const changes: string[] = [];
    harness.disk.before = (verb, path) => {
      if (path.startsWith(hostPath) && ["makeFile", "rename", "link"].includes(verb))
        changes.push(`${verb} ${path.slice(hostPath.length + 1).replace(/^\.\.\d[^/]*/, "NEW")}`);
    };
    const body = { metadata: { labels: { rack: "rack-23" } } };
    await harness.kube.user.patch(pods("default"), "web", { type: "merge", body });
    await harness.advance("2s");
    expect((await textsIn(harness))["/podinfo/labels"]).toContain('rack="rack-23"');
    expect(await harness.disk.at("/").readLink(`${hostPath}/..data`)).not.toBe(before);
    expect(changes).toEqual([
      "makeFile NEW/annotations",
      "makeFile NEW/labels",
      "link ..data_tmp",
      "rename ..data_tmp",
    ]);
  });

  test("a container with a file as a subPath does not receive updates", async () => {
    const volumeMounts = [{ name: "podinfo", mountPath: "/etc/labels", subPath: "labels" }];
    const { harness } = await runPod({ spec: { ...spec, containers: [container("a", { volumeMounts })] }, metadata });
    const body = { metadata: { labels: { rack: "rack-23" } } };
    await harness.kube.user.patch(pods("default"), "web", { type: "merge", body });
    await harness.advance("2m");
    expect((await textsIn(harness))["/etc/labels"] ?? "").not.toContain("rack-23");
  });
});

describeSection("Store container fields", () => {
  test("the divisor is optional, and means cores and bytes", async () => {
    const items = [
      amountOf("cpu_limit", "limits.cpu", "1m"),
      amountOf("cpu_request", "requests.cpu"),
      amountOf("mem_limit", "limits.memory", "1Mi"),
      amountOf("mem_request", "requests.memory"),
    ];
    const { harness } = await runPod({ spec: withAmounts(items) });
    expect(await textsIn(harness)).toEqual({
      "/podinfo/cpu_limit": "500",
      // Rounded up to whole cores.
      "/podinfo/cpu_request": "1",
      "/podinfo/mem_limit": "64",
      "/podinfo/mem_request": String(32 * 2 ** 20),
    });
  });
});

describeSection("Project keys to specific paths and file permissions", () => {
  test("a field has the path and the mode of its item", async () => {
    const { harness } = await runPod({
      spec: podinfo(fileOf("deep/name", "metadata.name", 0o400), fileOf("namespace", "metadata.namespace")),
    });
    expect(await modesIn(harness)).toEqual({ "/podinfo/deep/name": "400", "/podinfo/namespace": "644" });
  });
});
