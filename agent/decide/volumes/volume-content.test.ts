import { expect, test } from "bun:test";
import { podCertificateKey, trustAnchorKey } from "../../../proto/kubernetes/certificates.ts";
import { claimKey } from "../../../proto/kubernetes/claims.ts";
import type { Container, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { tokenKey, tokenReferenceOf } from "../../../proto/kubernetes/token-references.ts";
import type { ClusterSettings } from "../settings.ts";
import { canBeMadeBesideSandbox, contentVersionOf, dependsOn, isWaitingForContent } from "./volume-content.ts";

const pod: Pod = {
  metadata: { name: "web", namespace: "shop", uid: "u-1", labels: { app: "web" }, annotations: { note: "a" } },
  spec: {
    containers: [
      { name: "app", image: "app" },
      { name: "b", image: "b" },
    ],
    serviceAccountName: "robot",
  },
};
const resized = (name: string): Container => ({ name, image: name, resources: { limits: { cpu: "2" } } });
const tokenSource = { path: "token" };
const token = tokenKey(tokenReferenceOf(pod, tokenSource));
const downward = (fieldPath: string) => ({ downwardAPI: { items: [{ path: "x", fieldRef: { fieldPath } }] } });

const volumes: Readonly<Record<string, Omit<Volume, "name">>> = {
  "a hostPath": { hostPath: { path: "/srv" } },
  "an emptyDir": { emptyDir: {} },
  "a ConfigMap": { configMap: { name: "settings" } },
  "a Secret": { secret: { secretName: "keys" } },
  "the pod's labels": downward("metadata.labels"),
  "one label": downward("metadata.labels['app']"),
  "the pod's annotations": downward("metadata.annotations"),
  "the pod's name": downward("metadata.name"),
  "a container's limit": {
    downwardAPI: { items: [{ path: "x", resourceFieldRef: { containerName: "app", resource: "limits.cpu" } }] },
  },
  "the default volume": {
    projected: { sources: [{ serviceAccountToken: tokenSource }, { configMap: { name: "settings" } }] },
  },
  "trust anchors": { projected: { sources: [{ clusterTrustBundle: { name: "ca", path: "ca.crt" } }] } },
  "a pod certificate": { projected: { sources: [{}, { podCertificate: { signerName: "a/b", keyType: "ED25519" } }] } },
};
const anchors = trustAnchorKey({ name: "ca", path: "ca.crt" });
const certificate = podCertificateKey({ podUid: pod.metadata.uid ?? "", volume: "v", sourceIndex: 1 });

const cluster = (given: Partial<ClusterSettings> = {}): ClusterSettings => ({
  areServicesRead: true,
  areRuntimeClassesRead: true,
  settledReferences: new Set(["configmap shop/settings", "secret shop/keys"]),
  referenceVersions: new Map([
    ["configmap shop/settings", "7"],
    ["secret shop/keys", "8"],
  ]),
  hasReferencedKey: (_object, key) => key === "present",
  tokenVersions: new Map([[token, "t1"]]),
  certificateVersions: new Map([
    [anchors, "a1"],
    [certificate, "c1"],
  ]),
  settledClaims: new Set<string>(),
  ...given,
});

const changes: Readonly<Record<string, { readonly pod?: Pod; readonly cluster?: ClusterSettings }>> = {
  "the ConfigMap": {
    cluster: cluster({
      referenceVersions: new Map([...cluster().referenceVersions, ["configmap shop/settings", "9"]]),
    }),
  },
  "the Secret": {
    cluster: cluster({ referenceVersions: new Map([...cluster().referenceVersions, ["secret shop/keys", "absent"]]) }),
  },
  "the token": { cluster: cluster({ tokenVersions: new Map([[token, "t2"]]) }) },
  "the trust anchors": {
    cluster: cluster({
      certificateVersions: new Map([
        [anchors, "a2"],
        [certificate, "c1"],
      ]),
    }),
  },
  "the certificate": {
    cluster: cluster({
      certificateVersions: new Map([
        [anchors, "a1"],
        [certificate, "c2"],
      ]),
    }),
  },
  "a label": { pod: { ...pod, metadata: { ...pod.metadata, labels: { app: "shop" } } } },
  "an annotation": { pod: { ...pod, metadata: { ...pod.metadata, annotations: { note: "b" } } } },
  "a resize of the container": {
    pod: { ...pod, spec: { ...pod.spec, containers: [resized("app"), { name: "b", image: "b" }] } },
  },
  "a resize of another container": {
    pod: { ...pod, spec: { ...pod.spec, containers: [{ name: "app", image: "app" }, resized("b")] } },
  },
  "the status": { pod: { ...pod, status: { phase: "Running" } } },
};

test("the content of a volume has another version after a change of it, and of nothing else", () => {
  const lines = Object.entries(volumes).map(([name, source]) => {
    const volume = { name: "v", ...source };
    const before = contentVersionOf(pod, volume, { cluster: cluster() });
    const changed = Object.entries(changes).filter(
      ([, change]) => contentVersionOf(change.pod ?? pod, volume, { cluster: change.cluster ?? cluster() }) !== before,
    );
    const text = changed.map(([what]) => what).join(", ") || "nothing";
    return `${name}: ${before === undefined ? "the agent does not write it" : text}`;
  });
  expect(lines).toMatchInlineSnapshot(`
    [
      "a hostPath: the agent does not write it",
      "an emptyDir: the agent does not write it",
      "a ConfigMap: the ConfigMap",
      "a Secret: the Secret",
      "the pod's labels: a label",
      "one label: a label",
      "the pod's annotations: an annotation",
      "the pod's name: nothing",
      "a container's limit: a resize of the container",
      "the default volume: the ConfigMap, the token",
      "trust anchors: the trust anchors",
      "a pod certificate: the certificate",
    ]
  `);
});

test("a volume waits while an object or a token of it is being read", () => {
  const unread = {
    nothing: cluster(),
    "the ConfigMap": cluster({ settledReferences: new Set(["secret shop/keys"]) }),
    "the token": cluster({ tokenVersions: new Map() }),
    "the trust anchors": cluster({ certificateVersions: new Map([[certificate, "c1"]]) }),
    "the certificate": cluster({ certificateVersions: new Map([[anchors, "failed"]]) }),
  };
  const lines = Object.entries(unread).map(([what, settings]) => {
    const waiting = Object.entries(volumes).filter(([, source]) =>
      isWaitingForContent(pod, { name: "v", ...source }, { cluster: settings }),
    );
    return `${what} is unread: ${waiting.map(([name]) => name).join(", ") || "no volume waits"}`;
  });
  expect(lines).toMatchInlineSnapshot(`
    [
      "nothing is unread: no volume waits",
      "the ConfigMap is unread: a ConfigMap, the default volume",
      "the token is unread: the default volume",
      "the trust anchors is unread: trust anchors",
      "the certificate is unread: a pod certificate",
    ]
  `);
});

test("a volume waits while its claim is being read, and only its claim counts for it", () => {
  const claimed: Volume = { name: "v", persistentVolumeClaim: { claimName: "data" } };
  const key = claimKey({
    namespace: pod.metadata.namespace ?? "default",
    name: "data",
    podUid: pod.metadata.uid ?? "",
  });
  const waits = (known: readonly string[]) =>
    isWaitingForContent(pod, claimed, { cluster: cluster({ settledClaims: new Set(known) }) });
  expect([waits([]), waits([`${key}x`]), waits([key])]).toEqual([true, true, false]);
  expect([dependsOn(pod, claimed, key), dependsOn(pod, claimed, "secret shop/data")]).toEqual([true, false]);
});

test("on a standalone node no volume waits", () => {
  const waiting = Object.values(volumes).filter((source) => isWaitingForContent(pod, { name: "v", ...source }, {}));
  expect(waiting).toEqual([]);
});

test.each<[name: string, key: string, isContent: boolean]>([
  ["a ConfigMap", "configmap shop/settings", true],
  ["a ConfigMap", "secret shop/settings", false],
  ["the default volume", "configmap shop/settings", true],
  ["the default volume", token, true],
  ["an emptyDir", token, false],
  ["trust anchors", anchors, true],
  ["trust anchors", certificate, false],
  ["a pod certificate", certificate, true],
])("%s has content of %s: %p", (name, key, isContent) => {
  expect(dependsOn(pod, { name: "v", ...volumes[name] }, key)).toBe(isContent);
});

const keyOf = (key: string) => ({ items: [{ key, path: "x" }] });
const besideSandbox: readonly (readonly [
  what: string,
  source: Omit<Volume, "name">,
  given?: Partial<ClusterSettings>,
])[] = [
  ["an emptyDir", { emptyDir: {} }],
  ["an emptyDir in memory", { emptyDir: { medium: "Memory" } }],
  ["an emptyDir of huge pages", { emptyDir: { medium: "HugePages-2Mi" } }],
  ["a hostPath without a type", { hostPath: { path: "/srv" } }],
  ["a hostPath with a type", { hostPath: { path: "/srv", type: "Directory" } }],
  ["the pod's labels", downward("metadata.labels")],
  ["a container's limit", volumes["a container's limit"] ?? {}],
  [
    "the limit of a container that the pod lacks",
    { downwardAPI: { items: [{ path: "x", resourceFieldRef: { containerName: "gone", resource: "limits.cpu" } }] } },
  ],
  ["a ConfigMap", { configMap: { name: "settings" } }],
  ["a ConfigMap that is being read", { configMap: { name: "unread" } }],
  ["a Secret that does not exist", { secret: { secretName: "gone" } }],
  ["an optional Secret that does not exist", { secret: { secretName: "gone", optional: true } }],
  ["a key that the ConfigMap has", { configMap: { name: "settings", ...keyOf("present") } }],
  ["a key that the ConfigMap lacks", { configMap: { name: "settings", ...keyOf("missing") } }],
  ["an optional key that the Secret lacks", { secret: { secretName: "keys", optional: true, ...keyOf("missing") } }],
  ["the default volume", volumes["the default volume"] ?? {}],
  [
    "the default volume without a token",
    volumes["the default volume"] ?? {},
    { tokenVersions: new Map([[token, "failed"]]) },
  ],
  ["a projection of a missing key", { projected: { sources: [{ secret: { name: "keys", ...keyOf("missing") } }] } }],
  [
    "a claim",
    { persistentVolumeClaim: { claimName: "data" } },
    { settledClaims: new Set([claimKey({ namespace: "shop", name: "data", podUid: "u-1" })]) },
  ],
  ["a volume of a driver", { csi: { driver: "d" } }],
];

test("a volume is made while the sandbox starts if nothing that it needs may be missing", () => {
  const lines = besideSandbox.map(([what, source, given]) => {
    const versions = new Map([...cluster().referenceVersions, ["secret shop/gone", "absent"]]);
    const settings = { cluster: cluster({ referenceVersions: versions, ...given }) };
    return `${what}: ${canBeMadeBesideSandbox(pod, { name: "v", ...source }, settings) ? "beside" : "before"}`;
  });
  expect(lines).toMatchInlineSnapshot(`
    [
      "an emptyDir: beside",
      "an emptyDir in memory: beside",
      "an emptyDir of huge pages: before",
      "a hostPath without a type: beside",
      "a hostPath with a type: before",
      "the pod's labels: beside",
      "a container's limit: beside",
      "the limit of a container that the pod lacks: before",
      "a ConfigMap: beside",
      "a ConfigMap that is being read: before",
      "a Secret that does not exist: before",
      "an optional Secret that does not exist: beside",
      "a key that the ConfigMap has: beside",
      "a key that the ConfigMap lacks: before",
      "an optional key that the Secret lacks: beside",
      "the default volume: beside",
      "the default volume without a token: before",
      "a projection of a missing key: before",
      "a claim: before",
      "a volume of a driver: before",
    ]
  `);
});
