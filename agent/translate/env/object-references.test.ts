import { expect, test } from "bun:test";
import type { Container, EnvFromSource, EnvVar, Pod, Service } from "../../../proto/kubernetes/gen/types.ts";
import { type ReferencedObject, type ReferencedObjects, referenceKey } from "../../../proto/kubernetes/references.ts";
import { utf8 } from "../../../proto/utf8.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { environmentOf } from "./environment.ts";
import { createBoundedExpander } from "./variable-expansion.ts";

const base64 = (text: string | Uint8Array) => Buffer.from(text).toString("base64");
const secret = (name: string, data: Readonly<Record<string, string>>) =>
  [
    referenceKey({ kind: "secret", namespace: "shop", name }),
    { uid: "u", version: "1", type: "Opaque", data },
  ] as const;
const configMap = (name: string, data: Readonly<Record<string, string>>) =>
  [referenceKey({ kind: "configmap", namespace: "shop", name }), { uid: "u", version: "1", type: "", data }] as const;
const absent = (kind: "secret" | "configmap", name: string) =>
  [referenceKey({ kind, namespace: "shop", name }), "absent"] as const;

const objects: ReferencedObjects = new Map<string, ReferencedObject | "absent">([
  secret("login", { user: base64("admin"), pass: base64("pa$$(user)"), "tls.key": base64("k") }),
  secret("odd", { null: base64("a\0b"), torn: "a", binary: base64(Uint8Array.of(0xff, 0x41)), empty: "" }),
  configMap("site", { user: "guest", colour: "blue", zone: "$(colour)" }),
  absent("secret", "gone"),
  absent("configmap", "gone"),
]);
const redis: Service = {
  metadata: { namespace: "shop", name: "redis" },
  spec: { clusterIP: "10.0.0.9", ports: [{ port: 1 }] },
};

interface EnvFields {
  readonly env?: readonly EnvVar[];
  readonly envFrom?: readonly EnvFromSource[];
}

function entries(
  { env = [], envFrom = [] }: EnvFields,
  services: readonly Service[] = [],
  known: ReferencedObjects = objects,
): readonly string[] {
  const container: Container = { name: "a", env, envFrom };
  const pod: Pod = { metadata: { name: "web", namespace: "shop" }, spec: { containers: [container] } };
  const facts = {
    ...nodeFacts,
    cluster: {
      services,
      runtimeHandlers: undefined,
      referencedObjects: known,
      tokens: new Map(),
      claims: new Map(),
      nodeLabels: {},
    },
  };
  return [
    ...environmentOf(
      { pod, container, podIPs: [], files: new Map(), facts },
      createBoundedExpander("a", "CreateContainerConfigError"),
    ),
  ].map(([name, value]) => `${name}=${value}`);
}
const ofSecret = (name: string, key: string, optional?: boolean): EnvVar => ({
  name: "A",
  valueFrom: { secretKeyRef: { name, key, ...(optional === undefined ? {} : { optional }) } },
});
const ofConfigMap = (name: string, key: string, optional?: boolean): EnvVar => ({
  name: "A",
  valueFrom: { configMapKeyRef: { name, key, ...(optional === undefined ? {} : { optional }) } },
});

const rows: readonly [sentence: string, asked: EnvFields, environment: readonly string[]][] = [
  ["one key of a Secret becomes a variable", { env: [ofSecret("login", "user")] }, ["A=admin"]],
  ["one key of a ConfigMap becomes a variable", { env: [ofConfigMap("site", "colour")] }, ["A=blue"]],
  ["an empty value sets the variable", { env: [ofSecret("odd", "empty")] }, ["A="]],
  ["dollar signs in a value are not expanded", { env: [ofSecret("login", "pass")] }, ["A=pa$$(user)"]],
  [
    "a later variable may refer to the value",
    { env: [ofSecret("login", "user"), { name: "URL", value: "http://$(A)@db" }] },
    ["A=admin", "URL=http://admin@db"],
  ],
  [
    "envFrom takes all keys of a ConfigMap, sorted",
    { envFrom: [{ configMapRef: { name: "site" } }] },
    ["colour=blue", "user=guest", "zone=$(colour)"],
  ],
  [
    "a key that is no shell identifier becomes a variable with its prefix",
    { envFrom: [{ prefix: "L_", secretRef: { name: "login" } }] },
    ["L_pass=pa$$(user)", "L_tls.key=k", "L_user=admin"],
  ],
  [
    "the later of two sources wins",
    { envFrom: [{ secretRef: { name: "login" } }, { configMapRef: { name: "site" } }] },
    ["pass=pa$$(user)", "tls.key=k", "colour=blue", "user=guest", "zone=$(colour)"],
  ],
  [
    "env overrides envFrom and may refer to it",
    { envFrom: [{ configMapRef: { name: "site" } }], env: [{ name: "user", value: "the $(user)" }] },
    ["colour=blue", "zone=$(colour)", "user=the guest"],
  ],
  [
    "an optional object that does not exist sets nothing",
    { env: [ofSecret("gone", "k", true), ofConfigMap("gone", "k", true)] },
    [],
  ],
  [
    "an optional key that does not exist sets nothing",
    { env: [ofSecret("login", "none", true), ofConfigMap("site", "none", true)] },
    [],
  ],
  [
    "an optional envFrom source that does not exist sets nothing",
    { envFrom: [{ secretRef: { name: "gone", optional: true } }, { configMapRef: { name: "gone", optional: true } }] },
    [],
  ],
  ["an envFrom entry without a source sets nothing", { envFrom: [{ prefix: "X_" }] }, []],
  [
    "a missing optional value keeps the earlier variable of that name",
    { env: [{ name: "A", value: "1" }, ofSecret("login", "none", true)] },
    ["A=1"],
  ],
];
for (const [sentence, fields, environment] of rows)
  test(sentence, () => {
    expect(entries(fields)).toEqual([...environment]);
  });

test("envFrom overrides service links", () => {
  const links = configMap("links", { REDIS_PORT: "mine" });
  const env = [{ name: "B", value: "$(REDIS_PORT) $(REDIS_SERVICE_HOST)" }];
  const variables = entries(
    { env, envFrom: [{ configMapRef: { name: "links" } }] },
    [redis],
    new Map<string, ReferencedObject | "absent">([...objects, links]),
  );
  expect(variables.filter((each) => /^(REDIS_PORT|B)=/.test(each))).toEqual(["REDIS_PORT=mine", "B=mine 10.0.0.9"]);
});

test("a value keeps arbitrary bytes", () => {
  const [value = ""] = entries({ env: [ofSecret("odd", "binary")] });
  expect([...utf8(value.slice(2))]).toEqual([0xff, 0x41]);
});

const failures: readonly [sentence: string, asked: EnvFields, message: string][] = [
  ["a missing Secret", { env: [ofSecret("gone", "k")] }, 'secret "gone" not found'],
  ["a missing ConfigMap", { env: [ofConfigMap("gone", "k")] }, 'configmap "gone" not found'],
  ["a missing Secret in envFrom", { envFrom: [{ secretRef: { name: "gone" } }] }, 'secret "gone" not found'],
  ["a missing ConfigMap in envFrom", { envFrom: [{ configMapRef: { name: "gone" } }] }, 'configmap "gone" not found'],
  ["a missing key of a Secret", { env: [ofSecret("login", "none")] }, "couldn't find key none in Secret shop/login"],
  [
    "a missing key of a ConfigMap",
    { env: [ofConfigMap("site", "none")] },
    "couldn't find key none in ConfigMap shop/site",
  ],
  [
    "a missing key named like a property of every object",
    { env: [ofSecret("login", "constructor")] },
    "couldn't find key constructor in Secret shop/login",
  ],
  [
    "a Secret that has not been read",
    { env: [ofSecret("new", "k")] },
    "failed to sync secret cache: timed out waiting for the condition",
  ],
  [
    "an optional ConfigMap that has not been read",
    { env: [ofConfigMap("new", "k", true)] },
    "failed to sync configmap cache: timed out waiting for the condition",
  ],
  [
    "a value with a null byte",
    { env: [ofSecret("odd", "null")] },
    "key null of Secret shop/odd: its value has a null byte, which no variable can have",
  ],
  [
    "a value that is not base64",
    { env: [ofSecret("odd", "torn")] },
    "key torn of Secret shop/odd: its value is not base64",
  ],
];
for (const [sentence, fields, message] of failures)
  test(`${sentence} fails the container with the kubelet's message`, () => {
    expect(() => entries(fields)).toThrow(expect.objectContaining({ reason: "CreateContainerConfigError", message }));
  });

test("a standalone node cannot resolve references", () => {
  const pod: Pod = { metadata: { name: "web", namespace: "shop" }, spec: { containers: [] } };
  const container: Container = { name: "a", env: [ofSecret("login", "user")] };
  expect(() =>
    environmentOf(
      { pod, container, podIPs: [], files: new Map(), facts: nodeFacts },
      createBoundedExpander("a", "CreateContainerConfigError"),
    ),
  ).toThrow("couldn't get secret shop/login, no kubeClient defined");
});
