import { expect, test } from "bun:test";
import type { Net } from "../../../host/net.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { chooseHostIPs, type HostIPsOptions, watchHostIPs } from "./host-ips.ts";

const local = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
const rows: readonly (readonly [
  sentence: string,
  reported: readonly string[],
  own: readonly string[],
  chosen: string[],
])[] = [
  ["without --node-ip a dual-stack node has only its first address", [], local, ["192.0.2.1"]],
  ["an IPv6-only node has its first IPv6 address", [], ["2001:db8::1", "2001:db8::2"], ["2001:db8::1"]],
  ["--node-ip wins over the local addresses", ["198.51.100.7"], local, ["198.51.100.7"]],
  [
    "--node-ip may list one address of each family",
    ["198.51.100.7", "2001:db8::7"],
    local,
    ["198.51.100.7", "2001:db8::7"],
  ],
  ["0.0.0.0 prefers IPv4", ["0.0.0.0"], ["2001:db8::1", "192.0.2.1"], ["192.0.2.1"]],
  [":: prefers IPv6", ["::"], local, ["2001:db8::1"]],
  ["a preferred family without any address is ignored", ["::"], ["192.0.2.1"], ["192.0.2.1"]],
  ["without any local address the result is empty", ["::"], [], []],
];
for (const [sentence, configured, has, chosen] of rows)
  test(sentence, () => {
    expect(chooseHostIPs(configured, "node", has)).toEqual(chosen);
  });

test("a node name that is an address is the node's address, unless --node-ip is set", () => {
  expect(chooseHostIPs([], "198.51.100.9", local)).toEqual(["198.51.100.9"]);
  expect(chooseHostIPs(["198.51.100.7"], "198.51.100.9", local)).toEqual(["198.51.100.7"]);
});

const names: readonly (readonly [
  sentence: string,
  reported: readonly string[],
  named: readonly string[],
  chosen: string,
])[] = [
  ["a node name that resolves to a local address selects it", [], ["192.0.2.2"], "192.0.2.2"],
  ["a node name that resolves to both families selects IPv4", [], ["2001:db8::1", "192.0.2.2"], "192.0.2.2"],
  [":: prefers IPv6", ["::"], ["192.0.2.2", "2001:db8::1"], "2001:db8::1"],
  ["a resolved address of the other family wins over an unresolved one", ["::"], ["192.0.2.2"], "192.0.2.2"],
  [
    "a node name that resolves to the loopback or to another machine is ignored",
    [],
    ["127.0.1.1", "198.51.100.1"],
    "192.0.2.1",
  ],
  ["--node-ip wins over the resolved node name", ["192.0.2.1"], ["192.0.2.2"], "192.0.2.1"],
];
for (const [sentence, configured, resolved, chosen] of names)
  test(sentence, () => {
    expect(chooseHostIPs(configured, "node", local, resolved)).toEqual([chosen]);
  });

/** The node's addresses on a network that the test changes; `arrivals` counts the calls of `onArrival`. */
function start(...addresses: readonly string[]) {
  return startWith({}, ...addresses);
}

function startWith(
  more: Partial<Pick<HostIPsOptions, "onChange" | "resolve" | "configured" | "log">>,
  ...addresses: readonly string[]
) {
  const clock = new FakeClock();
  const watchers = new Set<() => void>();
  const network = {
    addresses,
    reads: 0,
    watchers,
    arrivals: 0,
    change: () => [...watchers].map((changed) => changed()),
  };
  const net: Net = {
    addresses() {
      network.reads++;
      return network.addresses;
    },
    hasAddress: (address) => network.addresses.includes(address),
    watch(changed, signal) {
      watchers.add(changed);
      signal.addEventListener("abort", () => watchers.delete(changed));
    },
  };
  const abort = new AbortController();
  const onArrival = () => void network.arrivals++;
  const options = { configured: [], nodeName: "node", net, clock, log: new FakeLog(), onArrival, ...more };
  const hostIPs = watchHostIPs(options, abort.signal);
  return { network, clock, abort, hostIPs };
}

test("a known address is read again on a call after more than a minute, without a kernel watch", async () => {
  const { network, clock, hostIPs } = start("192.0.2.1");
  await clock.advance(60_000);
  network.addresses = ["192.0.2.2"];
  expect(hostIPs()).toEqual(["192.0.2.1"]);
  await clock.advance(3_600_000);
  expect(network.reads).toBe(1);
  expect(hostIPs()).toEqual(["192.0.2.2"]);
  expect([network.reads, network.watchers.size, network.arrivals]).toEqual([2, 0, 0]);
});

test("an address that disappears is kept until another one exists", async () => {
  const { network, clock, hostIPs } = start("192.0.2.1");
  network.addresses = [];
  await clock.advance(60_001);
  expect(hostIPs()).toEqual(["192.0.2.1"]);
  network.addresses = ["192.0.2.2"];
  await clock.advance(60_001);
  expect(hostIPs()).toEqual(["192.0.2.2"]);
});

test("the first address is reported once, and then the kernel watch ends", () => {
  const { network, hostIPs } = start();
  expect(hostIPs()).toEqual([]);
  network.change();
  expect(network.arrivals).toBe(0);
  network.addresses = ["192.0.2.1"];
  network.change();
  expect(hostIPs()).toEqual(["192.0.2.1"]);
  expect([network.arrivals, network.watchers.size]).toEqual([1, 0]);
});

test("a call that finds the first address before the kernel reports it reports it, too", () => {
  const { network, hostIPs } = start();
  hostIPs();
  network.addresses = ["192.0.2.1"];
  expect(hostIPs()).toEqual(["192.0.2.1"]);
  expect([network.arrivals, network.watchers.size]).toEqual([1, 0]);
});

test("a single kernel watch waits for the first address, until the signal aborts", () => {
  const { network, abort, hostIPs } = start();
  for (let i = 0; i < 3; i++) hostIPs();
  expect(network.watchers.size).toBe(1);
  abort.abort();
  expect(network.watchers.size).toBe(0);
});

test("a changed address is reported once, a second after the kernel's first message", async () => {
  let received = 0;
  const { network, clock, abort, hostIPs } = startWith({ onChange: () => void received++ }, "192.0.2.1");
  network.addresses = ["192.0.2.2"];
  for (let i = 0; i < 100; i++) network.change();
  await clock.advance(999);
  expect([network.reads, received]).toEqual([1, 0]);
  await clock.advance(1);
  expect([network.reads, received, hostIPs()]).toEqual([2, 1, ["192.0.2.2"]]);
  abort.abort();
  expect(network.watchers.size).toBe(0);
});

test("reads the addresses a second after a netlink message, ignores further ones for ten seconds, then reads again", async () => {
  let received = 0;
  const { network, clock, abort, hostIPs } = startWith({ onChange: () => void received++ }, "192.0.2.1");
  network.change();
  await clock.advance(1_000);
  expect([network.reads, network.watchers.size]).toEqual([2, 0]);
  network.addresses = ["192.0.2.2"];
  await clock.advance(8_999);
  expect([network.reads, received]).toEqual([2, 0]);
  await clock.advance(1);
  expect([network.reads, received, hostIPs()]).toEqual([3, 1, ["192.0.2.2"]]);
  await clock.advance(3_600_000);
  expect([network.reads, network.watchers.size]).toEqual([3, 1]);
  network.change();
  abort.abort();
  await clock.advance(10_000);
  expect([network.reads, network.watchers.size]).toEqual([3, 0]);
});

test("the node name is resolved at the start, and again when the local addresses change", async () => {
  const leads = { to: ["192.0.2.2"], asked: 0, notified: 0 };
  const { network, clock, hostIPs } = startWith(
    {
      onChange: () => void leads.notified++,
      async resolve() {
        leads.asked++;
        return leads.to;
      },
    },
    "192.0.2.1",
    "192.0.2.2",
  );
  await settlePromises();
  expect([hostIPs(), leads.asked, leads.notified]).toEqual([["192.0.2.2"], 1, 1]);
  leads.to = ["192.0.2.1"];
  // For example a pod's interface.
  network.change();
  await clock.advance(1_000);
  expect([hostIPs(), leads.asked, leads.notified]).toEqual([["192.0.2.2"], 1, 1]);
  network.addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
  await clock.advance(9_000);
  expect([hostIPs(), leads.asked, leads.notified]).toEqual([["192.0.2.1"], 2, 2]);
});

test("the addresses of --node-ip count as soon as interfaces have all of them, and stay when one disappears", async () => {
  const log = new FakeLog();
  const configured = ["198.51.100.7", "2001:db8::7"];
  const { network, clock, hostIPs } = startWith({ configured, log }, "192.0.2.1", "198.51.100.7");
  expect([hostIPs(), hostIPs()]).toEqual([[], []]);
  network.addresses = [...network.addresses, "2001:db8::7"];
  network.change();
  expect([hostIPs(), network.arrivals]).toEqual([configured, 1]);
  network.addresses = ["192.0.2.1"];
  await clock.advance(60_001);
  expect(hostIPs()).toEqual(configured);
  expect(log.takeLines()).toEqual([
    `error: --node-ip: node IP: "2001:db8::7" not found in the host's network interfaces; waiting for it`,
    `error: --node-ip: node IP: "198.51.100.7" not found in the host's network interfaces; waiting for it`,
  ]);
});
