// ADD, DEL and CHECK of pods with secondary networks, as the delegate's calls execute them, with a cache on disk.
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../../host/clock.ts";
import { createFiles } from "../../host/fs/files.ts";
import { createAttachmentLocks } from "../attachment-locks.ts";
import type { AttachmentKey, CacheEntry } from "../cache-entry.ts";
import type { Attachment } from "../chain.ts";
import type { DelegateVerb } from "../delegate/delegate-call.ts";
import { executeCall } from "../delegate/execute-call.ts";
import { CniError } from "../error.ts";
import { createCni } from "../network.ts";
import type { PluginCall } from "../plugin-call.ts";
import { createPluginCalls } from "../plugin-calls.ts";
import { createResultCache } from "../result-cache.ts";
import { unlimited } from "../time-limit.ts";
import { readCachedStatus } from "./cached-status.ts";
import type { NetworkDefinitions, NetworkPod } from "./pod-networks.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-pod-networks-"));
  await mkdir(join(folder, "net.d"));
  await writeConf("10-pods", { name: "pods", plugins: [{ type: "bridge", capabilities: { portMappings: true } }] });
});
afterEach(() => rm(folder, { recursive: true }));

const writeConf = (file: string, fields: object) =>
  writeFile(join(folder, "net.d", `${file}.conflist`), JSON.stringify({ cniVersion: "1.0.0", ...fields }));

const lan = { type: "macvlan", capabilities: { mac: true, portMappings: true, cgroupPath: true } };
const definitionsInApi: Readonly<Record<string, object>> = {
  "shop/lan": { cniVersion: "1.0.0", ...lan },
  "infra/store": { cniVersion: "1.0.0", type: "vlan" },
  "infra/of-node": {},
  "infra/early": { cniVersion: "0.3.1", type: "ptp" },
};

/** The runtime's call for a pod with this annotation. */
function attachmentOf(networks: string | undefined, more: Readonly<Record<string, string>> = {}): Attachment {
  const annotations = { ...more, ...(networks !== undefined && { "k8s.v1.cni.cncf.io/networks": networks }) };
  return {
    containerId: "3f2a",
    netns: "/run/netns/blue",
    ifName: "eth0",
    args: new Map([
      ["K8S_POD_NAMESPACE", "shop"],
      ["K8S_POD_NAME", "web"],
      ["K8S_POD_UID", "u1"],
      ["K8S_POD_INFRA_CONTAINER_ID", "3f2a"],
    ]),
    capabilityArgs: {
      "io.kubernetes.cri.pod-annotations": annotations,
      portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
      cgroupPath: "/kubepods/web",
    },
  };
}

interface Faults {
  /** Called with `VERB type` before each call of a plugin; it may throw. */
  readonly onCall?: (call: string) => void | Promise<void>;
  readonly onPublish?: () => void;
  /** The folder with the default network. */
  readonly confDir?: string;
}

const failOn = (call: string, isFixed = () => false) => ({
  onCall(called: string) {
    if (called === call && !isFixed()) throw new CniError(100, "no address left");
  },
});

function createFixture({ onCall, onPublish, confDir = "net.d" }: Faults = {}, { signal } = new AbortController()) {
  const calls: PluginCall[] = [];
  const routes: unknown[] = [];
  const published: { readonly pod: NetworkPod; readonly status: unknown }[] = [];
  const binaries = {
    async call(call: PluginCall) {
      calls.push(call);
      await onCall?.(`${call.verb} ${call.conf["type"]}`);
      if (call.verb !== "ADD") return undefined;
      const last = call.ifName.at(-1);
      const interfaces = [{ name: call.ifName, mac: `02:00:00:00:00:0${last}`, sandbox: call.netns }];
      const ips = [{ address: `10.${last}.0.5/16`, gateway: `10.${last}.0.1`, interface: 0 }];
      return { cniVersion: "1.0.0", interfaces, ips, routes: [{ dst: "0.0.0.0/0", gw: `10.${last}.0.1` }] };
    },
  };
  const definitions: NetworkDefinitions = {
    async read({ namespace, name }) {
      const config = definitionsInApi[`${namespace}/${name}`];
      if (config === undefined) throw new CniError(7, `${namespace}/${name} not found`);
      return { namespace, name, config: name === "of-node" ? "" : JSON.stringify(config) };
    },
    async publishStatus(pod, status) {
      onPublish?.();
      published.push({ pod, status: JSON.parse(status) });
    },
  };
  const clock = createClock();
  const cacheFiles = createFiles(folder);
  const cache = createResultCache({ files: cacheFiles, clock });
  const callPlugin = createPluginCalls({ binaries, inProcess: new Map(), clock });
  const locks = createAttachmentLocks({ files: cacheFiles, clock, description: "a test" });
  const cni = createCni({ createCallPlugin: () => callPlugin, cache, locks, timeLimit: unlimited });
  const setDefaultRoute = (...route: unknown[]) => void routes.push(route);
  const api = { definitions, setDefaultRoute };
  const deps = {
    cni,
    cache,
    locks,
    timeLimit: unlimited,
    files: createFiles("/"),
    confDirs: [join(folder, confDir)] as const,
    chainDir: join(folder, "net.d"),
    recordedAttachments: () => [],
    ...api,
  };
  const execute = (verb: DelegateVerb, attachment: Attachment, undoSignal?: AbortSignal) =>
    executeCall(deps, { verb, attachment }, signal, undoSignal);
  /** What was called since the last look. */
  const lines = () =>
    calls.splice(0).map(({ verb, conf, ifName }) => `${verb} ${conf["name"]}:${conf["type"]} ${ifName}`);
  return { execute, calls, lines, published, routes, cache };
}

const cached = async () => (await readdir(join(folder, "results")).catch(() => [] as string[])).toSorted(); // No ADD has made the folder.

/** The status of an interface, as the plugins of the fixture make it. */
const statusOf = (ifName: string) => {
  const last = ifName.at(-1);
  return { interface: ifName, ips: [`10.${last}.0.5`], mac: `02:00:00:00:00:0${last}`, dns: {} };
};

const BOTH = "lan,infra/store@st0";
const added = ["ADD pods:bridge eth0", "ADD lan:macvlan net1", "ADD store:vlan st0"];

test("a pod without the annotation has the default network alone, and no status is written", async () => {
  const { execute, lines, published } = createFixture();
  await execute("ADD", attachmentOf(undefined));
  expect([lines(), published]).toEqual([["ADD pods:bridge eth0"], []]);
  await execute("ADD", attachmentOf(" "));
  expect(published).toEqual([]);
});

test("a default network that reads the annotation itself attaches the networks", async () => {
  await writeConf("10-pods", { name: "pods", plugins: [{ type: "multus-shim" }] });
  const { execute, lines, published } = createFixture();
  await execute("ADD", attachmentOf(BOTH));
  expect([lines(), published]).toEqual([["ADD pods:multus-shim eth0"], []]);
});

test("a definition without a configuration means a network of --chain-dir, also where the agent executes the built-in one", async () => {
  await mkdir(join(folder, "network.d"));
  const builtin = { cniVersion: "1.0.0", name: "berth", plugins: [{ type: "berth" }] };
  await writeFile(join(folder, "network.d/10-builtin.conflist"), JSON.stringify(builtin));
  await writeConf("20-of-node", { name: "of-node", plugins: [lan] });
  const { execute, lines } = createFixture({ confDir: "network.d" });
  await execute("ADD", attachmentOf("infra/of-node"));
  expect(lines()).toEqual(["ADD berth:berth eth0", "ADD of-node:macvlan net1"]);
});

test("the selected networks follow the default one, whose result is the answer", async () => {
  const { execute, lines, published } = createFixture();
  const output = await execute("ADD", attachmentOf(BOTH));
  expect(output).toMatchObject({ ips: [{ address: "10.0.0.5/16" }] });
  expect(lines()).toEqual(added);
  expect(await cached()).toEqual(["lan-3f2a-net1", "pods-3f2a-eth0", "store-3f2a-st0"]);
  expect(published).toEqual([
    {
      pod: { namespace: "shop", name: "web", uid: "u1", isStatic: false },
      status: [
        { ...statusOf("eth0"), name: "pods", default: true, gateway: ["10.0.0.1"] },
        { ...statusOf("net1"), name: "shop/lan", gateway: ["10.1.0.1"] },
        { ...statusOf("st0"), name: "infra/store", gateway: ["10.0.0.1"] },
      ],
    },
  ]);
});

const routings: readonly (readonly [what: string, asked: readonly string[], gateways: readonly string[]])[] = [
  ["the gateways that the pod names", ["10.1.0.9", "fd00::9"], ["10.1.0.9", "fd00::9"]],
  ["the gateway of its result", [], ["10.1.0.1"]],
];
for (const [what, asked, gateways] of routings)
  test(`a network may get the default route over ${what}, and CHECK sees no other one`, async () => {
    const { execute, calls, published, routes } = createFixture();
    await execute("ADD", attachmentOf(JSON.stringify([{ name: "lan", "default-route": asked }])));
    expect(routes).toEqual([["/run/netns/blue", { ifName: "net1", gateways }]]);
    expect(published[0]?.status).toEqual([
      { ...statusOf("eth0"), name: "pods", default: true },
      { ...statusOf("net1"), name: "shop/lan", gateway: gateways },
    ]);
    calls.length = 0;
    await execute("CHECK", attachmentOf(undefined));
    expect(calls.map(({ conf }) => (conf["prevResult"] as { routes?: object }).routes)).toEqual([
      undefined,
      gateways.map((gw) => ({ dst: gw.includes(":") ? "::/0" : "0.0.0.0/0", gw })),
    ]);
  });

test("the pod's own host ports are those of the default network, its cgroup that of each that wants it", async () => {
  const { execute, calls } = createFixture();
  const own = [{ hostPort: 9090, containerPort: 90 }];
  await execute(
    "ADD",
    attachmentOf(JSON.stringify([{ name: "lan" }, { name: "lan", mac: "02:00:00:00:00:07", portMappings: own }])),
  );
  expect(calls.map(({ conf }) => conf["runtimeConfig"])).toEqual([
    { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] },
    { cgroupPath: "/kubepods/web" },
    { cgroupPath: "/kubepods/web", mac: "02:00:00:00:00:07", portMappings: [{ ...own[0], protocol: "tcp" }] },
  ]);
});

test("DEL needs neither the annotation nor the API server, and goes in reverse order", async () => {
  await createFixture().execute("ADD", attachmentOf(BOTH));
  await rm(join(folder, "net.d/10-pods.conflist"));
  const { execute, lines } = createFixture();
  await execute("DEL", { ...attachmentOf(undefined), capabilityArgs: {} });
  expect(lines()).toEqual(["DEL store:vlan st0", "DEL lan:macvlan net1", "DEL pods:bridge eth0"]);
  expect(await cached()).toEqual([]);
  await execute("DEL", attachmentOf(BOTH));
  expect(lines()).toEqual([]);
});

const annotated = { "io.kubernetes.cri.pod-annotations": {} };
const foreign: readonly (readonly [what: string, key: AttachmentKey, more?: Partial<CacheEntry>])[] = [
  ["the delegate's network", { network: "berth-delegate", containerId: "3f2a", ifName: "eth0" }],
  ["the loopback", { network: "cni-loopback", containerId: "3f2a", ifName: "lo" }],
  [
    "another network of the runtime",
    { network: "dmz", containerId: "3f2a", ifName: "eth1" },
    { capabilityArgs: annotated },
  ],
  ["a network that a user has added", { network: "hand", containerId: "3f2a", ifName: "x0" }, { args: new Map() }],
  ["a network of another pod", { network: "lan", containerId: "77aa", ifName: "net1" }],
];
const torn: readonly (readonly [what: string, change: (file: string) => Promise<void>])[] = [
  ["torn", async (file) => await writeFile(file, (await readFile(file, "utf8")).slice(0, 100))],
  ["lost", (file) => rm(file)],
];
for (const [what, tear] of torn)
  test(`DEL of a pod whose default network has an entry that is ${what} finds the others by theirs, and leaves alone what is not the agent's`, async () => {
    const { execute, lines, cache } = createFixture();
    const { args, netns } = attachmentOf(undefined);
    for (const [, key, more] of foreign) {
      const config = JSON.stringify({ cniVersion: "1.0.0", name: key.network, plugins: [{ type: "bridge" }] });
      await cache.write({ ...key, netns, args, capabilityArgs: {}, config, result: {}, ...more });
    }
    const kept = await cached();
    await execute("ADD", attachmentOf(BOTH));
    lines();
    await tear(join(folder, "results/pods-3f2a-eth0"));
    await execute("DEL", attachmentOf(BOTH));
    const deleted = lines();
    expect(deleted.slice(0, -1).toSorted()).toEqual(["DEL lan:macvlan net1", "DEL store:vlan st0"]);
    expect(deleted.at(-1)).toBe("DEL pods:bridge eth0");
    expect(await cached()).toEqual(kept);
  });

test("DEL of a pod without an entry of its default network fails as long as another network cannot be deleted", async () => {
  let isFixed = false;
  const { execute, lines } = createFixture(failOn("DEL vlan", () => isFixed));
  await execute("ADD", attachmentOf(BOTH));
  await rm(join(folder, "results/pods-3f2a-eth0"));
  await expect(execute("DEL", attachmentOf(BOTH))).rejects.toMatchObject({ code: 100, plugin: "vlan" });
  expect(await cached()).toEqual(["store-3f2a-st0"]);
  isFixed = true;
  lines();
  await execute("DEL", attachmentOf(BOTH));
  expect(lines()).toEqual(["DEL store:vlan st0", "DEL pods:bridge eth0"]);
  expect(await cached()).toEqual([]);
});

test("a secondary network that cannot be deleted keeps no other one, and the next DEL finds it", async () => {
  let isFixed = false;
  const { execute, lines } = createFixture(failOn("DEL vlan", () => isFixed));
  await execute("ADD", attachmentOf(BOTH));
  lines();
  await expect(execute("DEL", attachmentOf(BOTH))).rejects.toMatchObject({ code: 100, plugin: "vlan" });
  expect(lines()).toEqual(["DEL store:vlan st0", "DEL lan:macvlan net1"]);
  isFixed = true;
  await execute("DEL", attachmentOf(BOTH));
  expect(lines()).toEqual(["DEL store:vlan st0", "DEL lan:macvlan net1", "DEL pods:bridge eth0"]);
  expect(await cached()).toEqual([]);
});

test("a plugin that fails takes what was made with it, in reverse order, and its words name the network", async () => {
  const { execute, lines, published } = createFixture(failOn("ADD vlan"));
  await expect(execute("ADD", attachmentOf(BOTH))).rejects.toMatchObject({
    code: 100,
    message: "the secondary network infra/store: vlan: no address left",
  });
  expect(lines()).toEqual([...added, "DEL store:vlan st0", "DEL lan:macvlan net1", "DEL pods:bridge eth0"]);
  expect([await cached(), published]).toEqual([[], []]);
});

test("a status that cannot be written takes all networks with it", async () => {
  const { execute, lines } = createFixture({
    onPublish() {
      throw new CniError(11, "the API server is away");
    },
  });
  await expect(execute("ADD", attachmentOf("lan"))).rejects.toMatchObject({ message: "the API server is away" });
  expect(lines()).toEqual([
    "ADD pods:bridge eth0",
    "ADD lan:macvlan net1",
    "DEL lan:macvlan net1",
    "DEL pods:bridge eth0",
  ]);
});

test("an agent that dies between two networks leaves a record by which DEL deletes all", async () => {
  const controller = new AbortController();
  const onCall = (call: string) => {
    if (call === "ADD vlan") controller.abort(new Error("killed"));
    controller.signal.throwIfAborted();
  };
  const dying = createFixture({ onCall }, controller);
  await expect(dying.execute("ADD", attachmentOf(BOTH))).rejects.toThrow("killed");
  const { execute, lines } = createFixture();
  await execute("DEL", attachmentOf(BOTH));
  expect(lines()).toEqual(["DEL store:vlan st0", "DEL lan:macvlan net1", "DEL pods:bridge eth0"]);
});

test("an ADD that the runtime has given up is undone, and a DEL beside it waits for that", async () => {
  const controller = new AbortController();
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const onCall = async (call: string) => {
    if (call !== "ADD macvlan") return;
    reached.resolve();
    await released.promise;
  };
  const slow = createFixture({ onCall }, controller);
  const adding = slow.execute("ADD", attachmentOf(BOTH), new AbortController().signal);
  await reached.promise;
  controller.abort(new Error("given up"));
  const other = createFixture();
  const deleting = other.execute("DEL", attachmentOf(BOTH));
  released.resolve();
  await expect(adding).rejects.toThrow("given up");
  await deleting;
  expect(slow.lines()).toEqual([...added.slice(0, 2), "DEL lan:macvlan net1", "DEL pods:bridge eth0"]);
  expect(slow.published).toEqual([]);
  expect(other.lines()).toEqual(["DEL pods:bridge eth0"]);
  expect(await cached()).toEqual([]);
});

test("CHECK checks each network with the parameters of ADD", async () => {
  const { execute, lines } = createFixture();
  await execute("ADD", attachmentOf(BOTH));
  lines();
  await execute("CHECK", attachmentOf(undefined));
  expect(lines()).toEqual(["CHECK pods:bridge eth0", "CHECK lan:macvlan net1", "CHECK store:vlan st0"]);
});

test("CHECK leaves out the networks whose version has none, the default one too", async () => {
  const { execute, lines } = createFixture();
  await execute("ADD", attachmentOf("infra/early, lan"));
  lines();
  await execute("CHECK", attachmentOf(undefined));
  expect(lines()).toEqual(["CHECK pods:bridge eth0", "CHECK lan:macvlan net2"]);
  await execute("DEL", attachmentOf(undefined));
  await writeConf("10-pods", { cniVersion: "0.3.1", name: "pods", plugins: [{ type: "bridge" }] });
  await execute("ADD", attachmentOf("infra/early, lan"));
  lines();
  await execute("CHECK", attachmentOf(undefined));
  expect(lines()).toEqual(["CHECK lan:macvlan net2"]);
});

test("a static pod gets its networks, and its status is that of its mirror pod", async () => {
  const { execute, lines, published } = createFixture();
  await execute("ADD", attachmentOf("lan", { "kubernetes.io/config.source": "file" }));
  expect(lines()).toEqual(["ADD pods:bridge eth0", "ADD lan:macvlan net1"]);
  expect(published).toMatchObject([{ pod: { name: "web", isStatic: true } }]);
});

test("the status of a pod can be read from the cache as long as its networks exist, with the default route that was moved", async () => {
  const { execute, published, cache } = createFixture();
  expect(await readCachedStatus(cache, "u1")).toBeUndefined();
  await execute("ADD", attachmentOf('[{"name":"lan","default-route":["10.1.0.9"]}]'));
  const cached = JSON.parse((await readCachedStatus(cache, "u1")) ?? "");
  expect(cached).toEqual(published[0]?.status);
  expect(cached).toMatchObject([{ name: "pods" }, { name: "shop/lan", gateway: ["10.1.0.9"] }]);
  expect(await readCachedStatus(cache, "u2")).toBeUndefined();
  await execute("DEL", attachmentOf(undefined));
  expect(await readCachedStatus(cache, "u1")).toBeUndefined();
  await execute("ADD", attachmentOf(undefined));
  expect(await readCachedStatus(cache, "u1")).toBeUndefined();
});

const refused: readonly (readonly [what: string, networks: string, message: string])[] = [
  ["a broken annotation", "lan@eth0", "must be another interface than that of the default network"],
  ["a definition that does not exist", "lan,wan", "shop/wan not found"],
  [
    "what no plugin of the network can do",
    '[{"name":"lan","ips":["10.1.0.9"]}]',
    "the pod asks the network shop/lan for ips, and no plugin of it declares this capability",
  ],
];
for (const [what, networks, message] of refused)
  test(`${what} is refused before any plugin is called`, async () => {
    const { execute, lines } = createFixture();
    await expect(execute("ADD", attachmentOf(networks))).rejects.toMatchObject({
      code: 7,
      message: expect.stringContaining(message),
    });
    expect(lines()).toEqual([]);
  });

test("the cache has the pod's annotations only where a plugin wants them", async () => {
  const { execute } = createFixture();
  const text = () => Bun.file(join(folder, "results/pods-3f2a-eth0")).text();
  await execute("ADD", attachmentOf(undefined, { note: "large" }));
  expect(await text()).not.toContain("large");
  await execute("DEL", attachmentOf(undefined));
  const capabilities = { "io.kubernetes.cri.pod-annotations": true };
  await writeConf("10-pods", { name: "pods", plugins: [{ type: "bridge", capabilities }] });
  await execute("ADD", attachmentOf(undefined, { note: "large" }));
  expect(await text()).toContain("large");
});
