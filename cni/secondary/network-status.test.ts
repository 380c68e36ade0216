import { expect, test } from "bun:test";
import type { CniResult } from "../result.ts";
import { formatNetworkStatus, networkStatusOf } from "./network-status.ts";

const result: CniResult = {
  interfaces: [
    { name: "br0", mac: "02:00:00:00:00:01" },
    { name: "net1", mac: "02:00:00:00:00:02", mtu: 1450, sandbox: "/run/netns/a" },
    { name: "net1b", sandbox: "/run/netns/a" },
  ],
  ips: [
    { address: "10.1.0.5/16", interface: 1, gateway: "10.1.0.1" },
    { address: "fd00::5/64", interface: 1 },
    { address: "10.9.0.1/16", interface: 0 },
    { address: "10.1.0.6/16" },
  ],
  routes: [{ dst: "0.0.0.0/0", gw: "10.1.0.1" }, { dst: "::/0" }, { dst: "10.3.0.0/16", gw: "10.1.0.9" }],
  dns: { nameservers: ["10.1.0.1"], search: ["lan"] },
};

test("the status is that of the first interface in the pod, with its addresses and default gateways", () => {
  expect(networkStatusOf("infra/lan", result, false)).toEqual({
    name: "infra/lan",
    interface: "net1",
    ips: ["10.1.0.5", "fd00::5", "10.1.0.6"],
    mac: "02:00:00:00:00:02",
    mtu: 1450,
    dns: { nameservers: ["10.1.0.1"], search: ["lan"] },
    gateway: ["10.1.0.1"],
  });
});

test("a result without interfaces has its addresses, an empty one only the name", () => {
  const early = { interfaces: [], ips: [{ address: "10.1.0.5/16" }], routes: [], dns: {} };
  expect(networkStatusOf("pods", early, true)).toEqual({ name: "pods", ips: ["10.1.0.5"], default: true, dns: {} });
  expect(networkStatusOf("infra/lan", { ...early, ips: [] }, false)).toEqual({ name: "infra/lan", dns: {} });
});

test("the annotation is a list in JSON with line breaks", () => {
  const text = formatNetworkStatus([networkStatusOf("pods", { interfaces: [], ips: [], routes: [], dns: {} }, true)]);
  expect(text).toBe('[\n    {\n        "name": "pods",\n        "default": true,\n        "dns": {}\n    }\n]');
});
