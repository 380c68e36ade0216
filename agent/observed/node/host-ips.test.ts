import { expect, test } from "bun:test";
import type { Net } from "../../../host/net.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { chooseHostIPs, followHostIPs, type HostIPsParts } from "./host-ips.ts";

const own = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
const rows: readonly (readonly [
  sentence: string,
  told: readonly string[],
  own: readonly string[],
  chosen: string[],
])[] = [
  ["a node that is told nothing has its first address, and of both families only that one", [], own, ["192.0.2.1"]],
  ["a node that has IPv6 alone has its first of that", [], ["2001:db8::1", "2001:db8::2"], ["2001:db8::1"]],
  ["what it is told counts, whatever it has", ["198.51.100.7"], own, ["198.51.100.7"]],
  ["one of each family too", ["198.51.100.7", "2001:db8::7"], own, ["198.51.100.7", "2001:db8::7"]],
  ["0.0.0.0 prefers IPv4", ["0.0.0.0"], ["2001:db8::1", "192.0.2.1"], ["192.0.2.1"]],
  [":: prefers IPv6", ["::"], own, ["2001:db8::1"]],
  ["a preference that cannot be met is none", ["::"], ["192.0.2.1"], ["192.0.2.1"]],
  ["a node without any address has none", ["::"], [], []],
];
for (const [sentence, told, has, chosen] of rows)
  test(sentence, () => {
    expect(chooseHostIPs(told, "node", has)).toEqual(chosen);
  });

test("a node that is named by an address has that one, unless it is told another", () => {
  expect(chooseHostIPs([], "198.51.100.9", own)).toEqual(["198.51.100.9"]);
  expect(chooseHostIPs(["198.51.100.7"], "198.51.100.9", own)).toEqual(["198.51.100.7"]);
});

const names: readonly (readonly [
  sentence: string,
  told: readonly string[],
  named: readonly string[],
  chosen: string,
])[] = [
  ["a name that leads to an address of the node means that one", [], ["192.0.2.2"], "192.0.2.2"],
  ["of both families IPv4 is preferred", [], ["2001:db8::1", "192.0.2.2"], "192.0.2.2"],
  [":: prefers IPv6", ["::"], ["192.0.2.2", "2001:db8::1"], "2001:db8::1"],
  ["one of the other family is better than none", ["::"], ["192.0.2.2"], "192.0.2.2"],
  [
    "a name that leads to the loopback, or to another machine, means nothing",
    [],
    ["127.0.1.1", "198.51.100.1"],
    "192.0.2.1",
  ],
  ["what it is told counts more than its name", ["192.0.2.1"], ["192.0.2.2"], "192.0.2.1"],
];
for (const [sentence, told, named, chosen] of names)
  test(sentence, () => {
    expect(chooseHostIPs(told, "node", own, named)).toEqual([chosen]);
  });

/** Host addresses on a network that the test changes; `told` says how often an arrival was told. */
function start(...addresses: readonly string[]) {
  return startWith({}, ...addresses);
}

function startWith(more: Pick<HostIPsParts, "changed" | "resolve">, ...addresses: readonly string[]) {
  const clock = new FakeClock();
  const watchers = new Set<() => void>();
  const network = { addresses, reads: 0, watchers, told: 0, change: () => [...watchers].map((changed) => changed()) };
  const net: Net = {
    addresses() {
      network.reads++;
      return network.addresses;
    },
    watch(changed, signal) {
      watchers.add(changed);
      signal.addEventListener("abort", () => watchers.delete(changed));
    },
  };
  const ending = new AbortController();
  const arrived = () => void network.told++;
  const hostIPs = followHostIPs({ told: [], nodeName: "node", net, clock, arrived, ...more }, ending.signal);
  return { network, clock, ending, hostIPs };
}

test("an address that is there is read again a minute later, when somebody asks, and nobody watches", async () => {
  const { network, clock, hostIPs } = start("192.0.2.1");
  await clock.advance(60_000);
  network.addresses = ["192.0.2.2"];
  expect(hostIPs()).toEqual(["192.0.2.1"]);
  await clock.advance(3_600_000);
  expect(network.reads).toBe(1);
  expect(hostIPs()).toEqual(["192.0.2.2"]);
  expect([network.reads, network.watchers.size, network.told]).toEqual([2, 0, 0]);
});

test("an address that has gone stays until there is another one", async () => {
  const { network, clock, hostIPs } = start("192.0.2.1");
  network.addresses = [];
  await clock.advance(60_001);
  expect(hostIPs()).toEqual(["192.0.2.1"]);
  network.addresses = ["192.0.2.2"];
  await clock.advance(60_001);
  expect(hostIPs()).toEqual(["192.0.2.2"]);
});

test("an address that arrives is told once, and then nobody watches any longer", () => {
  const { network, hostIPs } = start();
  expect(hostIPs()).toEqual([]);
  network.change();
  expect(network.told).toBe(0);
  network.addresses = ["192.0.2.1"];
  network.change();
  expect(hostIPs()).toEqual(["192.0.2.1"]);
  expect([network.told, network.watchers.size]).toEqual([1, 0]);
});

test("whoever asks before the kernel has told sees it too, and the others are told", () => {
  const { network, hostIPs } = start();
  hostIPs();
  network.addresses = ["192.0.2.1"];
  expect(hostIPs()).toEqual(["192.0.2.1"]);
  expect([network.told, network.watchers.size]).toEqual([1, 0]);
});

test("however often somebody asks, one watch waits for the address, until the agent ends", () => {
  const { network, ending, hostIPs } = start();
  for (let i = 0; i < 3; i++) hostIPs();
  expect(network.watchers.size).toBe(1);
  ending.abort();
  expect(network.watchers.size).toBe(0);
});

test("whoever wants to hear of another address hears of it a second after the kernel's first word, once", async () => {
  let heard = 0;
  const { network, clock, ending, hostIPs } = startWith({ changed: () => void heard++ }, "192.0.2.1");
  network.addresses = ["192.0.2.2"];
  for (let i = 0; i < 100; i++) network.change();
  await clock.advance(999);
  expect([network.reads, heard]).toEqual([1, 0]);
  await clock.advance(1);
  expect([network.reads, heard, hostIPs()]).toEqual([2, 1, ["192.0.2.2"]]);
  ending.abort();
  expect(network.watchers.size).toBe(0);
});

test("for ten seconds after its first word the kernel is not listened to, and then what came meanwhile is seen", async () => {
  let heard = 0;
  const { network, clock, ending, hostIPs } = startWith({ changed: () => void heard++ }, "192.0.2.1");
  network.change();
  await clock.advance(1_000);
  expect([network.reads, network.watchers.size]).toEqual([2, 0]);
  network.addresses = ["192.0.2.2"];
  await clock.advance(8_999);
  expect([network.reads, heard]).toEqual([2, 0]);
  await clock.advance(1);
  expect([network.reads, heard, hostIPs()]).toEqual([3, 1, ["192.0.2.2"]]);
  await clock.advance(3_600_000);
  expect([network.reads, network.watchers.size]).toEqual([3, 1]);
  network.change();
  ending.abort();
  await clock.advance(10_000);
  expect([network.reads, network.watchers.size]).toEqual([3, 0]);
});

test("a name is asked for at the start, and when the addresses are others", async () => {
  const leads = { to: ["192.0.2.2"], asked: 0, heard: 0 };
  const { network, clock, hostIPs } = startWith(
    {
      changed: () => void leads.heard++,
      async resolve() {
        leads.asked++;
        return leads.to;
      },
    },
    "192.0.2.1",
    "192.0.2.2",
  );
  await rest();
  expect([hostIPs(), leads.asked, leads.heard]).toEqual([["192.0.2.2"], 1, 1]);
  leads.to = ["192.0.2.1"];
  // A pod's interface, say.
  network.change();
  await clock.advance(1_000);
  expect([hostIPs(), leads.asked, leads.heard]).toEqual([["192.0.2.2"], 1, 1]);
  network.addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
  await clock.advance(9_000);
  expect([hostIPs(), leads.asked, leads.heard]).toEqual([["192.0.2.1"], 2, 2]);
});
