import { expect, test } from "bun:test";
import type { Container, Pod, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { mountsOf } from "../volumes/mounts.ts";
import { kernelHostname } from "./hostname.ts";
import { hostsContent, hostsPathFor } from "./hosts.ts";

const podOf = (spec: Partial<PodSpec> = {}): Pod => ({
  metadata: { name: "web-0", namespace: "shop", uid: "u-1" },
  spec: { containers: [], ...spec },
});

test("the hosts file lists the pod under its FQDN and name, then its aliases", () => {
  const pod = podOf({
    subdomain: "web",
    hostAliases: [{ ip: "192.0.2.7", hostnames: ["db", "db.local"] }, { ip: "192.0.2.8" }],
  });
  expect(hostsContent(pod, ["10.0.0.2", "2001:db8::2"], nodeFacts, "")).toMatchInlineSnapshot(`
    "# Kubernetes-managed hosts file.
    127.0.0.1	localhost
    ::1	localhost ip6-localhost ip6-loopback
    fe00::0	ip6-localnet
    fe00::0	ip6-mcastprefix
    fe00::1	ip6-allnodes
    fe00::2	ip6-allrouters
    10.0.0.2	web-0.web.shop.svc.cluster.local	web-0
    2001:db8::2	web-0.web.shop.svc.cluster.local	web-0

    # Entries added by HostAliases.
    192.0.2.7	db	db.local
    192.0.2.8
    "
  `);
});

test("a pod without a subdomain is listed under its name only", () => {
  expect(hostsContent(podOf(), ["10.0.0.2"], nodeFacts, "")).toEndWith("fe00::2\tip6-allrouters\n10.0.0.2\tweb-0\n");
});

test("under hostNetwork the hosts file is the node's, followed by the aliases", () => {
  const pod = podOf({ hostNetwork: true, hostAliases: [{ ip: "192.0.2.7", hostnames: ["db"] }] });
  expect(hostsContent(pod, [], nodeFacts, "127.0.0.1 node\n")).toBe(
    "# Kubernetes-managed hosts file (host network).\n127.0.0.1 node\n\n# Entries added by HostAliases.\n192.0.2.7\tdb\n",
  );
});

const mount = (mountPath: string): Container => ({ name: "a", volumeMounts: [{ name: "own", mountPath }] });
const rows: readonly [
  sentence: string,
  pod: Pod,
  container: Container,
  podIPs: readonly string[],
  isMounted: boolean,
][] = [
  ["a pod with an address mounts the hosts file", podOf(), { name: "a" }, ["10.0.0.2"], true],
  ["a pod with hostNetwork mounts the hosts file", podOf({ hostNetwork: true }), { name: "a" }, [], true],
  ["a pod without an address mounts no hosts file", podOf(), { name: "a" }, [], false],
  ["a container's own mount of /etc/hosts replaces the hosts file", podOf(), mount("/etc/hosts"), ["10.0.0.2"], false],
  ["a container's own mount of etc/hosts/ replaces the hosts file", podOf(), mount("etc/hosts/"), ["10.0.0.2"], false],
  ["a mount of another path keeps the hosts file", podOf(), mount("/etc/hosts.d"), ["10.0.0.2"], true],
];
for (const [sentence, pod, container, podIPs, isMounted] of rows)
  test(sentence, () => {
    expect(hostsPathFor(pod, container, podIPs) !== undefined).toBe(isMounted);
  });

test("all containers of a pod mount the same writable hosts file", () => {
  const [hosts] = mountsOf({ name: "a" }, { pod: podOf(), attempt: 3, podIPs: ["10.0.0.2"], facts: nodeFacts });
  expect(hosts).toMatchObject({
    containerPath: "/etc/hosts",
    hostPath: "/root-dir/pods/u-1/etc-hosts",
    readonly: false,
    selinuxRelabel: false,
  });
});

const names: readonly [sentence: string, spec: Partial<PodSpec>, hostname: string][] = [
  ["a pod's host name is its name", {}, "web-0"],
  ["spec.hostname overrides the pod's name", { hostname: "shop" }, "shop"],
  ["a subdomain does not change the host name", { subdomain: "web" }, "web-0"],
  [
    "setHostnameAsFQDN makes the host name the FQDN",
    { subdomain: "web", setHostnameAsFQDN: true },
    "web-0.web.shop.svc.cluster.local",
  ],
  ["setHostnameAsFQDN has no effect without a subdomain", { setHostnameAsFQDN: true }, "web-0"],
  [
    "hostnameOverride ignores subdomain and setHostnameAsFQDN",
    { subdomain: "web", setHostnameAsFQDN: true, hostnameOverride: "me" },
    "me",
  ],
];
for (const [sentence, spec, hostname] of names)
  test(sentence, () => {
    expect(kernelHostname(podOf(spec), nodeFacts)).toBe(hostname);
  });

test("an FQDN above the kernel's limit is rejected with the kubelet's message", () => {
  const pod = podOf({ hostname: "a".repeat(40), subdomain: "web", setHostnameAsFQDN: true });
  expect(() => kernelHostname(pod, nodeFacts)).toThrow(
    `failed to construct FQDN from pod hostname and cluster domain, FQDN ${"a".repeat(40)}.web.shop.svc.cluster.local is too long (64 characters is the max, 67 characters requested)`,
  );
});
