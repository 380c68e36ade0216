import { describe, expect, test } from "bun:test";
import type { Pod, PodSpec, PodStatus } from "./gen/types.ts";
import { staticPod } from "./static-pod.ts";
import { staticPodReferences } from "./static-pod-references.ts";

const manifest: Pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "web", labels: { app: "web" } },
  spec: { containers: [{ name: "main", image: "busybox:1" }] },
};
const file = { kind: "file", path: "/etc/kubernetes/manifests/web.yaml" } as const;
const http = { kind: "http", url: "http://127.0.0.1/pod" } as const;
const origin = { nodeName: "Node-1", source: file } as const;
const uidOf = (pod: Pod, at = {}) => staticPod(pod, { ...origin, ...at }).metadata.uid;

test("a pod from a file is bound to its node, named after it and tolerates NoExecute", () => {
  const { metadata, spec, status } = staticPod(manifest, origin);
  expect(metadata.uid).toMatch(/^[0-9a-f]{32}$/);
  expect(metadata).toEqual({
    name: "web-node-1",
    namespace: "default",
    labels: { app: "web" },
    uid: metadata.uid ?? "",
    annotations: { "kubernetes.io/config.hash": metadata.uid ?? "", "kubernetes.io/config.source": "file" },
  });
  expect(spec.nodeName).toBe("Node-1");
  expect(spec.restartPolicy).toBe("Always");
  expect(spec.tolerations).toEqual([{ operator: "Exists", effect: "NoExecute" }]);
  expect(status).toEqual({ phase: "Pending" });
});

test("a pod from a URL gets no toleration", () => {
  const { metadata, spec } = staticPod(manifest, { nodeName: "node", source: http });
  expect(metadata.annotations?.["kubernetes.io/config.source"]).toBe("http");
  expect(spec.tolerations).toBeUndefined();
});

test("UID, namespace, annotations and other tolerations of the manifest are kept", () => {
  const pod = staticPod(
    {
      ...manifest,
      metadata: { name: "web", namespace: "apps", uid: "mine", annotations: { a: "b" } },
      spec: {
        ...manifest.spec,
        tolerations: [
          { key: "a", operator: "Exists" },
          { operator: "Exists", effect: "NoExecute", tolerationSeconds: 5 },
        ],
      },
    },
    origin,
  );
  expect(pod.metadata.uid).toBe("mine");
  expect(pod.metadata.namespace).toBe("apps");
  expect(pod.metadata.annotations).toMatchObject({ a: "b", "kubernetes.io/config.hash": "mine" });
  expect(pod.spec.tolerations).toEqual([
    { key: "a", operator: "Exists" },
    { operator: "Exists", effect: "NoExecute" },
  ]);
});

describe("the UID of a static pod", () => {
  test("does not change with a restart or with the order of the keys", () => {
    const reordered: Pod = {
      spec: { containers: [{ image: "busybox:1", name: "main" }] },
      metadata: { labels: { app: "web" }, name: "web" },
      kind: "Pod",
      apiVersion: "v1",
    };
    expect(uidOf(manifest)).toBe("9bbe507bb357aff636a8838479809c50");
    expect(uidOf(reordered)).toBe(uidOf(manifest) ?? "");
  });

  test("does not depend on a status in the manifest that is none", () => {
    for (const status of [{}, null, "Running", { phase: 7 }, { startTime: "yesterday" }])
      expect(uidOf({ ...manifest, status: status as PodStatus })).toBe(uidOf(manifest) ?? "");
  });

  test("stays that of an earlier release while the node has the pod under it", () => {
    const former = "56772a0a083e63f213172e5da0562695";
    const isUidInUse = (uid: string) => uid === former;
    expect(uidOf(manifest, { isUidInUse })).toBe(former);
    const { metadata } = staticPod(manifest, { ...origin, isUidInUse });
    expect(metadata.annotations?.["kubernetes.io/config.hash"]).toBe(former);
    const changed = { ...manifest, metadata: { name: "web", labels: { app: "api" } } };
    expect(uidOf(changed, { isUidInUse })).toBe(uidOf(changed) ?? "");
  });

  test("depends on content, file, node and source", () => {
    const uids = [
      uidOf(manifest),
      uidOf({ ...manifest, spec: { containers: [{ name: "main", image: "busybox:2" }] } }),
      uidOf({ ...manifest, metadata: { name: "web", labels: { app: "api" } } }),
      uidOf(manifest, { source: { kind: "file", path: "/other.yaml" } }),
      uidOf(manifest, { nodeName: "node-2" }),
      uidOf(manifest, { source: http }),
    ];
    expect(new Set(uids).size).toBe(uids.length);
  });
});

describe("a static pod may not refer to API objects:", () => {
  const containers = [{ name: "main", image: "busybox:1" }];
  const env = (valueFrom: object) => ({ containers: [{ ...containers[0], env: [{ name: "A", valueFrom }] }] });
  const volume = (source: object) => ({ containers, volumes: [{ name: "v", ...source }] });
  const rows: readonly (readonly [field: string, resource: string, spec: object])[] = [
    ["spec.serviceAccountName", "serviceaccounts", { containers, serviceAccountName: "robot" }],
    ["spec.imagePullSecrets[0]", "secrets", { containers, imagePullSecrets: [{ name: "s" }] }],
    ["spec.resourceClaims", "resourceclaims", { containers, resourceClaims: [{ name: "c" }] }],
    ["spec.containers[0].env[0].valueFrom.secretKeyRef", "secrets", env({ secretKeyRef: { name: "s", key: "k" } })],
    [
      "spec.containers[0].env[0].valueFrom.configMapKeyRef",
      "configmaps",
      env({ configMapKeyRef: { name: "c", key: "k" } }),
    ],
    [
      "spec.initContainers[0].envFrom[0].secretRef",
      "secrets",
      { containers, initContainers: [{ name: "i", envFrom: [{ secretRef: { name: "s" } }] }] },
    ],
    ["spec.volumes[0].configMap", "configmaps (via configmap volumes)", volume({ configMap: { name: "c" } })],
    ["spec.volumes[0].secret", "secrets (via secret volumes)", volume({ secret: { secretName: "s" } })],
    [
      "spec.volumes[0].persistentVolumeClaim",
      "persistentvolumeclaims",
      volume({ persistentVolumeClaim: { claimName: "p" } }),
    ],
    ["spec.volumes[0].csi", "csidrivers (via CSI volumes)", volume({ csi: { driver: "d" } })],
    ["spec.volumes[0].iscsi.secretRef", "secrets", volume({ iscsi: { secretRef: { name: "s" } } })],
    [
      "spec.volumes[0].projected.sources[0].clusterTrustBundle",
      "clustertrustbundles",
      volume({ projected: { sources: [{ clusterTrustBundle: { path: "p" } }] } }),
    ],
  ];
  for (const [field, resource, spec] of rows)
    test(`${field} is rejected`, () => {
      const errors = staticPodReferences({ metadata: {}, spec: spec as PodSpec });
      expect(errors).toEqual([
        { field, reason: "FieldValueForbidden", message: `Forbidden: static pods may not reference ${resource}` },
      ]);
    });

  test("references to the node itself are accepted", () => {
    const spec = {
      containers: [{ name: "main", env: [{ name: "A", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }] }],
      volumes: [
        { name: "a", emptyDir: {} },
        { name: "b", hostPath: { path: "/" } },
        { name: "c", projected: { sources: [{ downwardAPI: {} }] } },
      ],
    };
    expect(staticPodReferences({ metadata: {}, spec })).toEqual([]);
  });
});
