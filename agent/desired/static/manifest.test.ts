import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import golden from "../../../test/golden/static-pod-uids.json" with { type: "json" };
import { readPodListManifest, readPodManifest } from "./manifest.ts";

const pod = (name: string) => `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
spec: {containers: [{name: a, image: busybox}]}
`;
const LABEL_RULE =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const withVolume = (name: string, subPath: string) => `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: a, image: busybox, volumeMounts: [{name: ${name}, mountPath: /v, subPath: ${subPath}}]}]
  volumes: [{name: ${name}, emptyDir: {}}]
`;
const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: y}\nspec: {replicas: 1, template: {}}\n";

const rows: readonly [sentence: string, text: string, problem: string][] = [
  [
    "a Deployment is refused for its kind, not for each field",
    deployment,
    '/m:2: kind: "Deployment": static pods are Pods only',
  ],
  [
    "a Deployment in JSON is refused for its kind",
    JSON.stringify({ apiVersion: "apps/v1", kind: "Deployment", spec: { replicas: 1 } }),
    '/m:1: kind: "Deployment": static pods are Pods only',
  ],
  ...["Pood", "pod", "Pods"].map((kind): [string, string, string] => [
    `for the kind ${kind} the error asks whether Pod was meant`,
    pod("web").replace("kind: Pod", `kind: ${kind}`),
    `/m:2: kind: "${kind}": did you mean "Pod"?`,
  ]),
  ...["v2", "V1", "apps/v1"].map((version): [string, string, string] => [
    `for the apiVersion ${version} the error names v1`,
    pod("web").replace("v1", version),
    `/m:1: apiVersion: Unsupported value: "${version}": supported values: "v1"`,
  ]),
  [
    "the values of a missing kind and apiVersion are named",
    pod("web").replace(/^apiVersion.*\nkind.*\n/, ""),
    '/m:1: kind: Required value: must be "Pod"; /m:1: apiVersion: Required value: must be "v1"',
  ],
  [
    "an empty kind is reported",
    pod("web").replace("kind: Pod", 'kind: ""'),
    '/m:2: kind: Unsupported value: "": supported values: "Pod"',
  ],
  ...(
    [
      ["y", "boolean", "true"],
      ["off", "boolean", "false"],
      ["1.10", "number", "1.1"],
    ] as const
  ).map(([name, type, read]): [string, string, string] => [
    `of the name ${name}, which is no text to YAML, it is said what it is`,
    pod(name),
    `/m:4: metadata.name: Invalid type: got ${type}, expected string; YAML reads it as ${read}: put it in quotes`,
  ]),
  [
    "the name of a volume that leads out of its directory is refused",
    withVolume("../../../etc", ""),
    `/m:6: spec.volumes[0].name: Invalid value: "../../../etc": ${LABEL_RULE}`,
  ],
  [
    "a subPath that leads out of its volume is refused",
    withVolume("data", "a/../../etc"),
    "/m:5: spec.containers[0].volumeMounts[0].subPath: Invalid value: \"a/../../etc\": must not contain '..'",
  ],
];
for (const [sentence, text, problem] of rows)
  test(sentence, async () => {
    expect((await readPodManifest(text, { path: "/m", nodeName: "node" })).problem).toBe(problem);
  });

test("a list from a URL may contain only Pods", async () => {
  const list = `apiVersion: v1\nkind: PodList\nitems:\n- kind: Job\n  spec: {}\n`;
  const { problem } = await readPodListManifest(list, { url: "http://pods.example/", nodeName: "node" });
  expect(problem).toBe('the answer:4: kind: "Job": static pods are Pods only');
});

/** Manifests whose uids are recorded with the kubelet's own functions. */
const readGolden = (name: string) => readFile(join(import.meta.dir, "../../../test/golden/static-pods", name), "utf8");
const { nodeName, url, manifests, lists } = golden;

test.each(["kubeadm-kube-apiserver.yaml", "json-compact.json", "anchors.yaml", "uid-given.yaml"] as const)(
  "the pod of %s has the uid that the kubelet gives it, from a file and from a URL",
  async (name) => {
    const text = await readGolden(name);
    const { pod } = await readPodManifest(text, { path: `/manifests/${name}`, nodeName });
    const { pods } = await readPodListManifest(text, { url, nodeName });
    expect([pod, ...(pods ?? [])].map((each) => each?.metadata.uid)).toEqual([
      manifests[name].file,
      manifests[name].url,
    ]);
  },
);

test.each(["list.json", "list.yaml"] as const)("each pod of %s has the uid that the kubelet gives it", async (name) => {
  const { pods } = await readPodListManifest(await readGolden(name), { url, nodeName });
  expect(pods?.map(({ metadata }) => metadata.uid)).toEqual(lists[name]);
});
