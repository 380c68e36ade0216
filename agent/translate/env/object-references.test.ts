import { expect, test } from "bun:test";
import type { Container, EnvFromSource, EnvVar, Pod, Service } from "../../../proto/kubernetes/gen/types.ts";
import { type Referent, type Referents, referenceKey } from "../../../proto/kubernetes/references.ts";
import { utf8 } from "../../../proto/utf8.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { environmentOf } from "./environment.ts";
import { createPortion } from "./variable-expansion.ts";

const base64 = (text: string | Uint8Array) => Buffer.from(text).toString("base64");
const secret = (name: string, data: Readonly<Record<string, string>>) =>
  [referenceKey({ kind: "secret", namespace: "shop", name }), { uid: "u", type: "Opaque", data }] as const;
const configMap = (name: string, data: Readonly<Record<string, string>>) =>
  [referenceKey({ kind: "configmap", namespace: "shop", name }), { uid: "u", type: "", data }] as const;
const absent = (kind: "secret" | "configmap", name: string) =>
  [referenceKey({ kind, namespace: "shop", name }), "absent"] as const;

const referents: Referents = new Map<string, Referent | "absent">([
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

interface Asked {
  readonly env?: readonly EnvVar[];
  readonly envFrom?: readonly EnvFromSource[];
}

function entries(
  { env = [], envFrom = [] }: Asked,
  services: readonly Service[] = [],
  known: Referents = referents,
): readonly string[] {
  const container: Container = { name: "a", env, envFrom };
  const pod: Pod = { metadata: { name: "web", namespace: "shop" }, spec: { containers: [container] } };
  const facts = { ...nodeFacts, cluster: { services, runtimeHandlers: undefined, referents: known } };
  return [
    ...environmentOf(
      { pod, container, podIPs: [], files: new Map(), facts },
      createPortion("a", "CreateContainerConfigError"),
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

const rows: readonly [sentence: string, asked: Asked, environment: readonly string[]][] = [
  ["a key of a Secret", { env: [ofSecret("login", "user")] }, ["A=admin"]],
  ["a key of a ConfigMap", { env: [ofConfigMap("site", "colour")] }, ["A=blue"]],
  ["an empty value is a value", { env: [ofSecret("odd", "empty")] }, ["A="]],
  ["dollars in a value are no references", { env: [ofSecret("login", "pass")] }, ["A=pa$$(user)"]],
  [
    "a value can be referred to",
    { env: [ofSecret("login", "user"), { name: "URL", value: "http://$(A)@db" }] },
    ["A=admin", "URL=http://admin@db"],
  ],
  [
    "all keys of a ConfigMap, by name",
    { envFrom: [{ configMapRef: { name: "site" } }] },
    ["colour=blue", "user=guest", "zone=$(colour)"],
  ],
  [
    "a key that is no shell's name is a variable, with its prefix",
    { envFrom: [{ prefix: "L_", secretRef: { name: "login" } }] },
    ["L_pass=pa$$(user)", "L_tls.key=k", "L_user=admin"],
  ],
  [
    "of two sources the later one counts",
    { envFrom: [{ secretRef: { name: "login" } }, { configMapRef: { name: "site" } }] },
    ["pass=pa$$(user)", "tls.key=k", "colour=blue", "user=guest", "zone=$(colour)"],
  ],
  [
    "env counts more than envFrom, and may refer to it",
    { envFrom: [{ configMapRef: { name: "site" } }], env: [{ name: "user", value: "the $(user)" }] },
    ["colour=blue", "zone=$(colour)", "user=the guest"],
  ],
  [
    "what is optional and not there is no variable",
    { env: [ofSecret("gone", "k", true), ofConfigMap("gone", "k", true)] },
    [],
  ],
  ["so is an optional key", { env: [ofSecret("login", "none", true), ofConfigMap("site", "none", true)] }, []],
  [
    "and an optional source",
    { envFrom: [{ secretRef: { name: "gone", optional: true } }, { configMapRef: { name: "gone", optional: true } }] },
    [],
  ],
  ["a source that names neither brings nothing", { envFrom: [{ prefix: "X_" }] }, []],
  [
    "an optional value that is not there leaves the one before it",
    { env: [{ name: "A", value: "1" }, ofSecret("login", "none", true)] },
    ["A=1"],
  ],
];
for (const [sentence, asked, environment] of rows)
  test(sentence, () => {
    expect(entries(asked)).toEqual([...environment]);
  });

test("what envFrom brings counts more than what is told of a Service", () => {
  const links = configMap("links", { REDIS_PORT: "mine" });
  const env = [{ name: "B", value: "$(REDIS_PORT) $(REDIS_SERVICE_HOST)" }];
  const told = entries(
    { env, envFrom: [{ configMapRef: { name: "links" } }] },
    [redis],
    new Map([...referents, links]),
  );
  expect(told.filter((each) => /^(REDIS_PORT|B)=/.test(each))).toEqual(["REDIS_PORT=mine", "B=mine 10.0.0.9"]);
});

test("a value may be any bytes: they are kept", () => {
  const [value = ""] = entries({ env: [ofSecret("odd", "binary")] });
  expect([...utf8(value.slice(2))]).toEqual([0xff, 0x41]);
});

const failures: readonly [sentence: string, asked: Asked, message: string][] = [
  ["a Secret that is not there", { env: [ofSecret("gone", "k")] }, 'secret "gone" not found'],
  ["a ConfigMap that is not there", { env: [ofConfigMap("gone", "k")] }, 'configmap "gone" not found'],
  ["a whole Secret that is not there", { envFrom: [{ secretRef: { name: "gone" } }] }, 'secret "gone" not found'],
  ["a whole ConfigMap", { envFrom: [{ configMapRef: { name: "gone" } }] }, 'configmap "gone" not found'],
  ["a key of a Secret", { env: [ofSecret("login", "none")] }, "couldn't find key none in Secret shop/login"],
  ["a key of a ConfigMap", { env: [ofConfigMap("site", "none")] }, "couldn't find key none in ConfigMap shop/site"],
  [
    "a key that every object has",
    { env: [ofSecret("login", "constructor")] },
    "couldn't find key constructor in Secret shop/login",
  ],
  [
    "a Secret that was not read",
    { env: [ofSecret("new", "k")] },
    "failed to sync secret cache: timed out waiting for the condition",
  ],
  [
    "an optional one that was not read",
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
for (const [sentence, asked, message] of failures)
  test(`${sentence} fails the container in the kubelet's words`, () => {
    expect(() => entries(asked)).toThrow(expect.objectContaining({ reason: "CreateContainerConfigError", message }));
  });

test("a node that stands alone has none", () => {
  const pod: Pod = { metadata: { name: "web", namespace: "shop" }, spec: { containers: [] } };
  const container: Container = { name: "a", env: [ofSecret("login", "user")] };
  expect(() =>
    environmentOf(
      { pod, container, podIPs: [], files: new Map(), facts: nodeFacts },
      createPortion("a", "CreateContainerConfigError"),
    ),
  ).toThrow("couldn't get secret shop/login, no kubeClient defined");
});
