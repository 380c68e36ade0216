import { expect, test } from "bun:test";
import { CniError } from "./error.ts";
import { type CniResult, formatResult, parseResult } from "./result.ts";
import { type CniVersion, cniVersions } from "./version.ts";

const result: CniResult = {
  interfaces: [
    { name: "cni0", mac: "00:11:22:33:44:55", mtu: 1500 },
    { name: "eth0", mac: "99:88:77:66:55:44", sandbox: "/run/netns/blue", socketPath: "/s", pciID: "0000:00:1f.6" },
  ],
  ips: [
    { address: "10.1.0.5/16", gateway: "10.1.0.1", interface: 1 },
    { address: "fd00::5/64", interface: 1 },
    { address: "10.2.0.5/16", interface: 1 },
  ],
  routes: [
    { dst: "0.0.0.0/0", gw: "10.1.0.1", mtu: 1400, advmss: 1360, priority: 10, table: 0, scope: 0 },
    { dst: "::/0", gw: "fd00::1" },
  ],
  dns: { nameservers: ["10.1.0.1"], domain: "local", search: ["local"], options: ["ndots:5"] },
};

const dns = result.dns;
const early = {
  ip4: { ip: "10.1.0.5/16", gateway: "10.1.0.1", routes: [{ dst: "0.0.0.0/0", gw: "10.1.0.1" }] },
  ip6: { ip: "fd00::5/64", routes: [{ dst: "::/0", gw: "fd00::1" }] },
  dns,
};
const middle = {
  interfaces: [
    { name: "cni0", mac: "00:11:22:33:44:55" },
    { name: "eth0", mac: "99:88:77:66:55:44", sandbox: "/run/netns/blue" },
  ],
  ips: [
    { version: "4", ...result.ips[0] },
    { version: "6", ...result.ips[1] },
    { version: "4", ...result.ips[2] },
  ],
  routes: result.routes,
  dns,
};
const written: Readonly<Record<CniVersion, object>> = {
  "0.1.0": early,
  "0.2.0": early,
  "0.3.0": middle,
  "0.3.1": middle,
  "0.4.0": middle,
  "1.0.0": { ...result },
  "1.1.0": { ...result },
};

for (const version of cniVersions)
  test(`a result is written as version ${version} has it, and read again`, () => {
    const fields = formatResult(result, version);
    expect(fields).toEqual({ cniVersion: version, ...written[version] });
    expect(formatResult(parseResult(fields, "1.1.0"), version)).toEqual(fields);
  });

test("an empty result has no empty fields, but dns before 1.0.0, as libcni writes it", () => {
  const empty = parseResult({}, "1.1.0");
  expect(empty).toEqual({ interfaces: [], ips: [], routes: [], dns: {} });
  expect(formatResult(empty, "1.0.0")).toEqual({ cniVersion: "1.0.0" });
  expect(formatResult(empty, "0.4.0")).toEqual({ cniVersion: "0.4.0", dns: {} });
  expect(() => formatResult(empty, "0.2.0")).toThrow("a result of version 0.2.0 must have an IP address");
});

test("a result without a version has that of the configuration", () => {
  const fields = { cniVersion: "", ip4: { ip: "10.1.0.5/16" }, ips: [{ address: "10.1.0.6/16" }] };
  expect(parseResult(fields, "0.2.0").ips).toEqual([{ address: "10.1.0.5/16" }]);
  expect(parseResult(fields, "1.0.0").ips).toEqual([{ address: "10.1.0.6/16" }]);
});

test("what a newer plugin adds is left out, and zeros, empty texts and null count as absent", () => {
  const fields = {
    cniVersion: "1.1.0",
    interfaces: [{ name: "eth0", mac: "", mtu: 0, colour: "red" }],
    ips: [{ address: "10.1.0.5/16", gateway: "", interface: null }],
    routes: null,
    dns: { nameservers: [], domain: "" },
  };
  expect(parseResult(fields, "1.1.0")).toEqual({
    interfaces: [{ name: "eth0" }],
    ips: [{ address: "10.1.0.5/16" }],
    routes: [],
    dns: {},
  });
});

const refusals: readonly (readonly [what: string, value: unknown, failure: string])[] = [
  ["a list", [], "6: the result: found [], must be a JSON object"],
  ["null", null, "6: the result: found null, must be a JSON object"],
  [
    "an unknown version",
    { cniVersion: "3.0.0" },
    '1: the result has cniVersion "3.0.0", must be 1.0.0 as the configuration',
  ],
  [
    "an address without a prefix",
    { ips: [{ address: "10.1.0.5" }] },
    '6: ips[0].address: found "10.1.0.5", must be an address with its prefix, such as 10.1.0.5/16',
  ],
  [
    "a prefix that is too long",
    { ips: [{ address: "10.1.0.5/33" }] },
    '6: ips[0].address: found "10.1.0.5/33", must be an address with its prefix, such as 10.1.0.5/16',
  ],
  [
    "no address",
    { ips: [{}] },
    "6: ips[0].address: found nothing, must be an address with its prefix, such as 10.1.0.5/16",
  ],
  [
    "an address of an interface that is not there",
    { ips: [{ address: "10.1.0.5/16", interface: 0 }] },
    "6: ips[0].interface: found 0, must be the index of one of the 0 interfaces of the result",
  ],
  [
    "a negative index",
    { interfaces: [{ name: "a" }], ips: [{ address: "10.1.0.5/16", interface: -1 }] },
    "6: ips[0].interface: found -1, must be the index of one of the 1 interfaces of the result",
  ],
  [
    "a gateway that is none",
    { ips: [{ address: "10.1.0.5/16", gateway: "gw" }] },
    '6: ips[0].gateway: found "gw", must be an IP address',
  ],
  [
    "an interface without a name",
    { interfaces: [{}] },
    "6: interfaces[0].name: found nothing, must be the name of an interface",
  ],
  [
    "an MTU that is a text",
    { interfaces: [{ name: "a", mtu: "1500" }] },
    '6: interfaces[0].mtu: found "1500", must be a whole number',
  ],
  ["interfaces that are no list", { interfaces: {} }, "6: interfaces: found {}, must be a list"],
  ["an interface that is none", { interfaces: ["a"] }, '6: interfaces[0]: found "a", must be an object'],
  [
    "a route without a destination",
    { routes: [{ gw: "10.1.0.1" }] },
    "6: routes[0].dst: found nothing, must be an address with its prefix, such as 10.1.0.5/16",
  ],
  [
    "name servers that are no list",
    { dns: { nameservers: "10.1.0.1" } },
    '6: dns.nameservers: found "10.1.0.1", must be a list of texts',
  ],
  [
    "an early address that is none",
    { cniVersion: "0.2.0", ip4: { ip: "x" } },
    '6: ip4.ip: found "x", must be an address with its prefix, such as 10.1.0.5/16',
  ],
];
for (const [what, value, failure] of refusals)
  test(`${what} is refused with its path`, () => {
    let found = "accepted";
    try {
      parseResult(value, "1.0.0");
    } catch (error) {
      found = error instanceof CniError ? `${error.code}: ${error.message}` : String(error);
    }
    expect(found).toBe(failure);
  });
