import { expect, test } from "bun:test";
import {
  type KnownPodCertificate,
  type KnownTrustAnchors,
  podCertificateKey,
  trustAnchorKey,
} from "../../../proto/kubernetes/certificates.ts";
import type { Container, Pod, PodSpec, Volume, VolumeProjection } from "../../../proto/kubernetes/gen/types.ts";
import type { ReferencedObject } from "../../../proto/kubernetes/references.ts";
import { type KnownToken, tokenKey, tokenReferenceOf } from "../../../proto/kubernetes/token-references.ts";
import { TranslateError } from "../translate-error.ts";
import { contentOf } from "./content.ts";

const object = (data: ReferencedObject["data"], binaryData?: ReferencedObject["data"]): ReferencedObject => ({
  uid: "u",
  version: "1",
  type: "",
  data,
  ...(binaryData && { binaryData }),
});
const objects = new Map<string, ReferencedObject | "absent">([
  ["configmap shop/settings", object({ "app.conf": "on\n", empty: "" }, { "logo.png": "/wA=" })],
  ["configmap shop/gone", "absent"],
  ["secret shop/keys", object({ user: "YWRtaW4=", raw: "/wA=" })],
  ["secret shop/broken", object({ key: "*" })],
  ["secret shop/gone", "absent"],
]);

const certificateSource = { signerName: "a/b", keyType: "ED25519", credentialBundlePath: "bundle", keyPath: "./key" };
const tokenSource = { path: "token", expirationSeconds: 3607 };
const appContainer: Container = {
  name: "app",
  image: "app",
  resources: { limits: { cpu: "1500m" }, requests: { memory: "10Mi" } },
};
const podOf = (spec: Partial<PodSpec> = {}): Pod => ({
  metadata: {
    name: "web",
    namespace: "shop",
    uid: "u-1",
    labels: { tier: "front", app: 'say "hi"' },
    annotations: { note: "one\ntwo" },
  },
  spec: { serviceAccountName: "robot", containers: [appContainer], ...spec },
});

/** One line a file: mode, owner, path and content. */
function filesOf(source: Omit<Volume, "name">, spec: Partial<PodSpec> = {}, token: KnownToken = issued) {
  const pod = podOf(spec);
  const tokens = new Map([[tokenKey(tokenReferenceOf(pod, tokenSource)), token]]);
  const cluster = {
    services: [],
    runtimeHandlers: undefined,
    referencedObjects: objects,
    tokens,
    trustAnchors: new Map<string, KnownTrustAnchors>([
      [trustAnchorKey({ name: "ca", path: "" }), { pem: "CA", version: "1" }],
      [trustAnchorKey({ name: "gone", path: "" }), { failure: "it is gone" }],
    ]),
    podCertificates: new Map<string, KnownPodCertificate>([
      [
        podCertificateKey({ podUid: "u-1", volume: "v", sourceIndex: 0 }),
        { privateKey: "KEY", certificateChain: "CHAIN", version: "1" },
      ],
    ]),
    claims: new Map(),
    nodeLabels: {},
  };
  const facts = { allocatable: new Map([["memory", 8_000_000_000n]]), cluster };
  return contentOf({ pod, facts }, { name: "v", ...source }).map(({ path, mode, content, user, group }) => {
    const owner = [user ?? "", group ?? ""].join(":");
    const text = typeof content === "string" ? JSON.stringify(content) : `<${Buffer.from(content).toString("hex")}>`;
    return `${mode.toString(8).padStart(4, "0")} ${owner} ${path} ${text}`;
  });
}
const issued: KnownToken = { token: "eyJ", version: "1", expiresAt: 0 };
const projected = (...sources: readonly VolumeProjection[]) => ({ projected: { defaultMode: 0o644, sources } });

const rows: readonly [sentence: string, source: Omit<Volume, "name">, spec?: Partial<PodSpec>][] = [
  ["a ConfigMap with text and binary data", { configMap: { name: "settings", defaultMode: 0o644 } }],
  ["a mode of its own", { configMap: { name: "settings", defaultMode: 0o400 } }],
  [
    "items of a ConfigMap, with a path and a mode",
    { configMap: { name: "settings", items: [{ key: "app.conf", path: "etc/./app/main.conf", mode: 0o600 }] } },
  ],
  ["a Secret of any bytes", { secret: { secretName: "keys" } }],
  ["an fsGroup", { secret: { secretName: "keys", defaultMode: 0o400 } }, { securityContext: { fsGroup: 2000 } }],
  ["an optional ConfigMap that does not exist", { configMap: { name: "gone", optional: true } }],
  ["trust anchors", projected({ clusterTrustBundle: { name: "ca", path: "ca.crt" } })],
  [
    "trust anchors in a pod of one user",
    projected({ clusterTrustBundle: { name: "ca", path: "ca.crt" } }),
    { securityContext: { runAsUser: 1000 } },
  ],
  ["a pod certificate", projected({ podCertificate: certificateSource })],
  [
    "a pod certificate in a pod of one group",
    projected({ podCertificate: { ...certificateSource, credentialBundlePath: "", certificateChainPath: "chain" } }),
    { securityContext: { fsGroup: 2000 } },
  ],
  [
    "an optional key that does not exist",
    { secret: { secretName: "keys", optional: true, items: [{ key: "none", path: "none" }] } },
  ],
  [
    "the downward API",
    {
      downwardAPI: {
        defaultMode: 0o644,
        items: [
          { path: "labels", fieldRef: { fieldPath: "metadata.labels" } },
          { path: "annotations", fieldRef: { fieldPath: "metadata.annotations" } },
          { path: "tier", mode: 0o444, fieldRef: { fieldPath: "metadata.labels['tier']" } },
          { path: "missing", fieldRef: { fieldPath: "metadata.labels['none']" } },
          { path: "name", fieldRef: { fieldPath: "metadata.name" } },
          { path: "uid", fieldRef: { fieldPath: "metadata.uid" } },
          { path: "cpu", resourceFieldRef: { containerName: "app", resource: "limits.cpu", divisor: "1m" } },
          { path: "cpus", resourceFieldRef: { containerName: "app", resource: "limits.cpu" } },
          { path: "requested", resourceFieldRef: { containerName: "app", resource: "requests.memory" } },
          { path: "node", resourceFieldRef: { containerName: "app", resource: "limits.memory", divisor: "1k" } },
        ],
      },
    },
  ],
  [
    "the default volume of a pod",
    projected(
      { serviceAccountToken: tokenSource },
      { configMap: { name: "settings", items: [{ key: "app.conf", path: "ca.crt" }] } },
      { downwardAPI: { items: [{ path: "namespace", fieldRef: { fieldPath: "metadata.namespace" } }] } },
    ),
  ],
  [
    "the token of a pod whose containers run as one user",
    projected({ serviceAccountToken: tokenSource }),
    { securityContext: { runAsUser: 1000 } },
  ],
  [
    "the token of a pod whose containers run as several users",
    projected({ serviceAccountToken: tokenSource }),
    {
      containers: [
        { ...appContainer, securityContext: { runAsUser: 1 } },
        { ...appContainer, securityContext: { runAsUser: 2 } },
      ],
    },
  ],
  [
    "the token of a pod with an fsGroup",
    projected({ serviceAccountToken: tokenSource }),
    { securityContext: { fsGroup: 2000 } },
  ],
  [
    "two sources with one path: the later one counts",
    projected(
      { configMap: { name: "settings", items: [{ key: "app.conf", path: "x" }] } },
      { secret: { name: "keys", items: [{ key: "user", path: "x" }] } },
    ),
  ],
];

test("the files of volumes", () => {
  const lines = rows.map(([sentence, source, spec]) => [sentence, ...filesOf(source, spec)].join("\n  "));
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    a ConfigMap with text and binary data
      0644 : app.conf "on\\n"
      0644 : empty ""
      0644 : logo.png <ff00>
    a mode of its own
      0400 : app.conf "on\\n"
      0400 : empty ""
      0400 : logo.png <ff00>
    items of a ConfigMap, with a path and a mode
      0600 : etc/app/main.conf "on\\n"
    a Secret of any bytes
      0644 : raw <ff00>
      0644 : user <61646d696e>
    an fsGroup
      0440 :2000 raw <ff00>
      0440 :2000 user <61646d696e>
    an optional ConfigMap that does not exist
    trust anchors
      0644 : ca.crt "CA"
    trust anchors in a pod of one user
      0600 1000: ca.crt "CA"
    a pod certificate
      0644 : bundle "KEYCHAIN"
      0644 : key "KEY"
    a pod certificate in a pod of one group
      0640 :2000 chain "CHAIN"
      0640 :2000 key "KEY"
    an optional key that does not exist
    the downward API
      0644 : annotations "note=\\"one\\\\ntwo\\""
      0644 : cpu "1500"
      0644 : cpus "2"
      0644 : labels "app=\\"say \\\\\\"hi\\\\\\"\\"\\ntier=\\"front\\""
      0644 : missing ""
      0644 : name "web"
      0644 : node "8000000"
      0644 : requested "10485760"
      0444 : tier "front"
      0644 : uid "u-1"
    the default volume of a pod
      0644 : ca.crt "on\\n"
      0644 : namespace "shop"
      0644 : token "eyJ"
    the token of a pod whose containers run as one user
      0600 1000: token "eyJ"
    the token of a pod whose containers run as several users
      0644 : token "eyJ"
    the token of a pod with an fsGroup
      0640 :2000 token "eyJ"
    two sources with one path: the later one counts
      0644 : x <61646d696e>
    "
  `);
});

const refused: readonly [message: string, source: Omit<Volume, "name">, token?: KnownToken][] = [
  ['configmap "gone" not found', { configMap: { name: "gone" } }],
  ['secret "gone" not found', { secret: { secretName: "gone" } }],
  ["failed to sync configmap cache: timed out waiting for the condition", { configMap: { name: "unread" } }],
  [
    "configmap references non-existent config key: none",
    { configMap: { name: "settings", items: [{ key: "none", path: "x" }] } },
  ],
  [
    "configmap references non-existent config key: constructor",
    { configMap: { name: "settings", items: [{ key: "constructor", path: "x" }] } },
  ],
  ["references non-existent secret key: none", { secret: { secretName: "keys", items: [{ key: "none", path: "x" }] } }],
  ["the value of key key of secret shop/broken is not base64", { secret: { secretName: "broken" } }],
  [
    "container none not found",
    { downwardAPI: { items: [{ path: "x", resourceFieldRef: { containerName: "none", resource: "limits.cpu" } }] } },
  ],
  [
    "unsupported fieldPath: status.podIP",
    { downwardAPI: { items: [{ path: "x", fieldRef: { fieldPath: "status.podIP" } }] } },
  ],
  [
    "failed to fetch token: serviceaccounts is forbidden",
    projected({ serviceAccountToken: tokenSource }),
    { failure: "failed to fetch token: serviceaccounts is forbidden" },
  ],
  [
    '[configmap "gone" not found, secret "gone" not found]',
    projected({ configMap: { name: "gone" } }, { secret: { name: "gone" } }, { configMap: { name: "gone" } }),
  ],
  ["ClusterTrustBundle informer has not yet synced", projected({ clusterTrustBundle: { name: "b", path: "b.crt" } })],
  ["it is gone", projected({ clusterTrustBundle: { name: "gone", path: "b.crt" } })],
  [
    "no credentials yet for key={shop web u-1 v 1}",
    projected({ configMap: { name: "settings" } }, { podCertificate: certificateSource }),
  ],
];
for (const [message, source, token] of refused)
  test(`a volume is not set up: ${message}`, () => {
    const read = () => filesOf(source, {}, token);
    expect(read).toThrow(TranslateError);
    expect(read).toThrow(`MountVolume.SetUp failed for volume "v" : ${message}`);
  });

test("a standalone node has no objects to show", () => {
  const input = { pod: podOf(), facts: { allocatable: new Map() } };
  expect(() => contentOf(input, { name: "v", configMap: { name: "settings" } })).toThrow(
    "couldn't get configmap shop/settings: this node has no API server",
  );
});
