import { expect, test } from "bun:test";
import { deriveRequest } from "./request.ts";

const network = { name: "pods", cniVersion: "1.1.0" } as const;
const portMappings = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }];

test("a plugin gets its own fields with the name and the version of the network", () => {
  const fields = { type: "bridge", cniVersion: "0.1.0", name: "old", bridge: "cni0", nested: { keyA: ["a", 1, null] } };
  expect(deriveRequest(network, { fields, capabilities: [] }, {})).toEqual({
    ...fields,
    cniVersion: "1.1.0",
    name: "pods",
  });
});

test("a plugin gets the capabilities that it declares and that the runtime has", () => {
  const fields = { type: "portmap", capabilities: { portMappings: true, mac: true } };
  const capabilityArgs = { portMappings, bandwidth: { ingressRate: 1 } };
  const plugin = { fields, capabilities: ["portMappings", "mac", "toString"] };
  expect(deriveRequest(network, plugin, { capabilityArgs })).toEqual({
    ...network,
    type: "portmap",
    runtimeConfig: { portMappings },
  });
});

// CONVENTIONS.md of the specification, "Dynamic Plugin specific fields".
test.each<[string, unknown]>([
  ["portMappings", portMappings],
  ["ipRanges", [[{ subnet: "10.1.2.0/24" }]]],
  ["bandwidth", { ingressRate: 2048, ingressBurst: 1600, egressRate: 4096, egressBurst: 1600 }],
  ["dns", { searches: ["internal.test"], servers: ["10.0.0.10"] }],
  ["ips", ["10.10.0.2/24", "2001:db8:1::11/64"]],
  ["mac", "c2:11:22:33:44:55"],
  ["infinibandGUID", "c2:11:22:33:44:55:66:77"],
  ["deviceID", "0000:04:00.5"],
  ["aliases", ["my-container", "primary-db"]],
  ["cgroupPath", "/kubelet.slice/pod.slice"],
])("a plugin that declares %s gets the value of the runtime as it is, and another plugin does not", (name, value) => {
  const fields = { type: "some" };
  const request = (capabilities: readonly string[]) =>
    deriveRequest(network, { fields, capabilities }, { capabilityArgs: { [name]: value } });
  expect(request([name])).toEqual({ ...network, ...fields, runtimeConfig: { [name]: value } });
  expect(request([])).toEqual({ ...network, ...fields });
});

test("what the specification reserves is not taken from the file", () => {
  const fields = { type: "ptp", capabilities: {}, prevResult: { ips: [] }, "cni.dev/x": 1, args: { cni: {} } };
  expect(deriveRequest(network, { fields, capabilities: [] }, {})).toEqual({
    ...network,
    type: "ptp",
    args: { cni: {} },
  });
});

test("the previous result and the valid attachments are inserted", () => {
  const plugin = { fields: { type: "ptp" }, capabilities: [] };
  const prevResult = { cniVersion: "1.1.0", ips: [{ address: "10.1.0.5/16" }] };
  const validAttachments = [{ containerID: "c", ifname: "eth0" }];
  expect(deriveRequest(network, plugin, { prevResult, validAttachments })).toEqual({
    ...network,
    type: "ptp",
    prevResult,
    "cni.dev/valid-attachments": validAttachments,
    "cni.dev/attachments": validAttachments,
  });
  expect(deriveRequest(network, plugin, { validAttachments: [] })).toMatchObject({ "cni.dev/valid-attachments": [] });
});
