import { expect, test } from "bun:test";
import type { Pod, PodSpec, Service, ServiceSpec } from "../../../proto/kubernetes/gen/types.ts";
import { serviceEnvironment } from "./service-links.ts";

const service = (namespace: string, name: string, spec: ServiceSpec): Service => ({
  metadata: { namespace, name },
  spec,
});
const http = [{ port: 80 }];
const apiServer = service("default", "kubernetes", {
  clusterIP: "10.96.0.1",
  ports: [{ name: "https", port: 443, protocol: "TCP" }],
});

function variables(services: readonly Service[], spec: Partial<PodSpec> = {}, namespace = "shop"): readonly string[] {
  const pod: Pod = { metadata: { name: "web", namespace }, spec: { containers: [], ...spec } };
  return [...serviceEnvironment(pod, services)].map(([name, value]) => `${name}=${value}`);
}

test("a Service sets its first port, its named ports and Docker links", () => {
  const dns = service("shop", "my-dns", {
    clusterIP: "10.96.0.10",
    ports: [{ name: "dns", port: 53, protocol: "UDP" }, { name: "dns-tcp", port: 53, protocol: "TCP" }, { port: 9153 }],
  });
  expect(variables([dns])).toMatchInlineSnapshot(`
    [
      "MY_DNS_SERVICE_HOST=10.96.0.10",
      "MY_DNS_SERVICE_PORT=53",
      "MY_DNS_SERVICE_PORT_DNS=53",
      "MY_DNS_SERVICE_PORT_DNS_TCP=53",
      "MY_DNS_PORT=udp://10.96.0.10:53",
      "MY_DNS_PORT_53_UDP=udp://10.96.0.10:53",
      "MY_DNS_PORT_53_UDP_PROTO=udp",
      "MY_DNS_PORT_53_UDP_PORT=53",
      "MY_DNS_PORT_53_UDP_ADDR=10.96.0.10",
      "MY_DNS_PORT_53_TCP=tcp://10.96.0.10:53",
      "MY_DNS_PORT_53_TCP_PROTO=tcp",
      "MY_DNS_PORT_53_TCP_PORT=53",
      "MY_DNS_PORT_53_TCP_ADDR=10.96.0.10",
      "MY_DNS_PORT_9153_TCP=tcp://10.96.0.10:9153",
      "MY_DNS_PORT_9153_TCP_PROTO=tcp",
      "MY_DNS_PORT_9153_TCP_PORT=9153",
      "MY_DNS_PORT_9153_TCP_ADDR=10.96.0.10",
    ]
  `);
});

test("an IPv6 address is in brackets before a port", () => {
  const six = service("shop", "six", { clusterIP: "fd00::1", ports: http });
  expect(variables([six])).toMatchInlineSnapshot(`
    [
      "SIX_SERVICE_HOST=fd00::1",
      "SIX_SERVICE_PORT=80",
      "SIX_PORT=tcp://[fd00::1]:80",
      "SIX_PORT_80_TCP=tcp://[fd00::1]:80",
      "SIX_PORT_80_TCP_PROTO=tcp",
      "SIX_PORT_80_TCP_PORT=80",
      "SIX_PORT_80_TCP_ADDR=fd00::1",
    ]
  `);
});

const namesOf = (all: readonly string[]) => all.filter((each) => each.includes("_SERVICE_HOST"));
const own = service("shop", "own", { clusterIP: "10.96.0.2", ports: http });
const foreign = service("bank", "safe", { clusterIP: "10.96.0.3", ports: http });
const firstByName = service("shop", "a-b", { clusterIP: "10.96.0.4", ports: http });
const ownKubernetes = service("shop", "kubernetes", { clusterIP: "10.96.0.5", ports: http });
const otherService = service("default", "beside", { clusterIP: "10.96.0.6", ports: http });
const noLinks = { enableServiceLinks: false };

const rows: readonly [sentence: string, hosts: readonly string[], expected: readonly string[]][] = [
  ["no Services set no variables", variables([]), []],
  [
    "the API server and the pod's namespace are included, sorted by name",
    variables([own, apiServer, foreign, firstByName, otherService]),
    ["A_B_SERVICE_HOST=10.96.0.4", "KUBERNETES_SERVICE_HOST=10.96.0.1", "OWN_SERVICE_HOST=10.96.0.2"],
  ],
  [
    "enableServiceLinks false keeps the API server only",
    variables([own, apiServer, foreign], noLinks),
    ["KUBERNETES_SERVICE_HOST=10.96.0.1"],
  ],
  [
    "enableServiceLinks false keeps the API server only, in the namespace default too",
    variables([apiServer, otherService], noLinks, "default"),
    ["KUBERNETES_SERVICE_HOST=10.96.0.1"],
  ],
  [
    "a Service named kubernetes in the pod's namespace overrides the API server, whatever the order",
    variables([ownKubernetes, apiServer]),
    ["KUBERNETES_SERVICE_HOST=10.96.0.5"],
  ],
  [
    "a headless Service named kubernetes does not override the API server",
    variables([service("shop", "kubernetes", { externalName: "a.test", ports: http }), apiServer]),
    ["KUBERNETES_SERVICE_HOST=10.96.0.1"],
  ],
  [
    "a Service named kubernetes does not override it without service links",
    variables([apiServer, ownKubernetes], noLinks),
    ["KUBERNETES_SERVICE_HOST=10.96.0.1"],
  ],
  ["a headless Service sets no variables", variables([service("shop", "h", { clusterIP: "None", ports: http })]), []],
  [
    "an ExternalName Service sets no variables",
    variables([service("shop", "e", { externalName: "a.test", ports: http })]),
    [],
  ],
  [
    "a Service with an empty address sets no variables",
    variables([service("shop", "e", { clusterIP: "", ports: http })]),
    [],
  ],
  ["a Service without ports sets no variables", variables([service("shop", "p", { clusterIP: "10.96.0.7" })]), []],
];
for (const [sentence, hosts, expected] of rows)
  test(sentence, () => {
    expect(namesOf(hosts)).toEqual([...expected]);
    if (expected.length === 0) expect(hosts).toEqual([]);
  });
