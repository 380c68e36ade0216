import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { services } from "../../../kube/resource.ts";
import type { Service, ServiceSpec } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createServices } from "./services.ts";

const FILE = "berth/services.json";

async function createFixture() {
  const clock = new FakeClock();
  const disk = new FakeDisk(clock.now);
  const kube = new FakeKube({ clock });
  const root = disk.at("/root");
  await disk.at("/").makeFolder("root/berth", 0o700);
  const make = async (namespace: string, name: string, spec: ServiceSpec = {}) => {
    const whole = { clusterIP: "10.96.0.1", ports: [{ port: 80, targetPort: 8080 }], ...spec };
    await kube.user.create(services(namespace), { metadata: { name, namespace }, spec: whole });
    await settlePromises();
  };
  /** Starts an agent; the next one finds its checkpoint. */
  const begin = () => {
    const log = new FakeLog();
    const end = new AbortController();
    const fixture = { reads: 0, isApiReceived: false, namespaces: new Set<string>() };
    const known = createServices({
      kube,
      clock,
      log,
      root,
      namespaces: () => fixture.namespaces,
      isApiSynced: () => fixture.isApiReceived,
      onAvailable: () => {
        fixture.reads += 1;
      },
    });
    const followed = known.run(end.signal);
    const stop = async () => {
      end.abort();
      await followed;
    };
    return { fixture, known, log, stop, names: () => known.latest()?.map(nameOf) };
  };
  return { clock, kube, root, make, begin };
}
const nameOf = ({ metadata: { namespace, name } }: Service) => `${namespace}/${name}`;

test("Services are undefined until the first list, and then follow every change", async () => {
  const { kube, make, begin } = await createFixture();
  await make("shop", "web");
  const letGo = kube.hang("watch");
  const { fixture, known, names } = begin();
  await settlePromises();
  expect([names(), known.canStartPods(), fixture.reads]).toEqual([undefined, false, 0]);
  letGo();
  await settlePromises();
  expect([names(), known.canStartPods(), fixture.reads]).toEqual([["shop/web"], true, 1]);
  await make("bank", "safe");
  await kube.user.delete(services("shop"), "web");
  await settlePromises();
  expect([names(), fixture.reads]).toEqual([["bank/safe"], 1]);
});

test("only the fields that variables need are kept", async () => {
  const { kube, make, begin } = await createFixture();
  await make("shop", "web", {
    type: "ClusterIP",
    ports: [{ name: "http", port: 80, protocol: "TCP", nodePort: 30_080 }],
  });
  await make("shop", "headless", { clusterIP: "None" });
  await make("shop", "elsewhere", { clusterIP: "", externalName: "a.test" });
  const { known, names } = begin();
  await settlePromises();
  expect(known.latest()).toEqual([
    {
      metadata: { namespace: "shop", name: "web" },
      spec: { clusterIP: "10.96.0.1", ports: [{ name: "http", port: 80, protocol: "TCP" }] },
    },
  ]);
  expect(kube.openWatches).toBe(1);
  await kube.user.patch(services("shop"), "web", { type: "merge", body: { spec: { clusterIP: "" } } });
  await settlePromises();
  expect(names()).toEqual([]);
});

test("a malformed Service does not affect the others", async () => {
  const { kube, make, begin } = await createFixture();
  const odd = (spec: object) => spec as ServiceSpec;
  const ports = [{ port: 80 }, null, { port: "http" }, { name: 5, port: 81, protocol: {} }];
  await make("shop", "web", odd({ ports }));
  await make("shop", "number", odd({ clusterIP: 5 }));
  await make("shop", "object", odd({ ports: {} }));
  const { known } = begin();
  await settlePromises();
  expect(known.latest()?.map(({ metadata, spec }) => [metadata.name, spec.ports])).toEqual([
    ["web", [{ port: 80 }, { port: 81 }]],
  ]);
  expect(kube.openWatches).toBe(1);
});

test("an outage keeps the Services; a forbidden list is logged, and so is its end", async () => {
  const { clock, kube, make, begin } = await createFixture();
  await make("shop", "web");
  kube.failures = { watch: [new KubeError("FORBIDDEN", "watch services: forbidden", { status: 403 })] };
  const { log, names } = begin();
  await settlePromises();
  await clock.advance(60_000);
  await settlePromises();
  expect(names()).toEqual(["shop/web"]);
  expect(log.lines.map(({ message }) => message)).toMatchInlineSnapshot(`
    [
      "services cannot be read from the API server: watch services: forbidden",
      "services are read from the API server",
    ]
  `);
  kube.goDown();
  await clock.advance(60_000);
  expect(names()).toEqual(["shop/web"]);
});

test("the Services of this node's pods are saved for an agent that starts without the API server", async () => {
  const { kube, root, make, begin } = await createFixture();
  for (const [namespace, name] of [
    ["default", "kubernetes"],
    ["default", "other"],
    ["shop", "web"],
    ["bank", "safe"],
  ] as const)
    await make(namespace, name);
  const first = begin();
  await settlePromises();
  expect(await root.stat(FILE)).toBeUndefined();
  first.fixture.namespaces = new Set(["shop"]);
  first.known.markUsed();
  await first.stop();

  kube.goDown();
  const next = begin();
  await settlePromises();
  expect([next.names(), next.known.canStartPods(), next.fixture.reads]).toEqual([
    ["default/kubernetes", "shop/web"],
    true,
    1,
  ]);
  // With the API server available the saved Services may be outdated, so pods wait.
  next.fixture.isApiReceived = true;
  expect(next.known.canStartPods()).toBe(false);
});

test("the checkpoint is written only when it changes", async () => {
  const { root, make, begin } = await createFixture();
  await make("shop", "web");
  const { fixture, known } = begin();
  fixture.namespaces = new Set(["shop"]);
  await settlePromises();
  await root.remove(FILE);
  known.markUsed();
  await make("bank", "safe");
  await known.settled();
  expect(await root.stat(FILE)).toBeUndefined();
  await make("shop", "db");
  await known.settled();
  expect((await root.read(FILE, 10_000)).includes("db")).toBe(true);
});

test("only the temporary files of an interrupted write are removed", async () => {
  const { root, begin } = await createFixture();
  for (const name of [".services.json.1.tmp", ".other.json.1.tmp", "kept"])
    await root.write(`berth/${name}`, "", 0o600);
  begin();
  await settlePromises();
  expect((await root.list("berth"))?.map(({ name }) => name)).toEqual([".other.json.1.tmp", "kept"]);
});

const broken: readonly [what: string, text: string][] = [
  ["torn", '{"version":1,"serv'],
  ["of another release", '{"version":2,"services":[]}'],
  ["not an object", "null"],
  ["a list of nulls", '{"version":1,"services":[null]}'],
];
for (const [what, text] of broken)
  test(`a checkpoint that is ${what} is not used, which is logged`, async () => {
    const { kube, root, begin } = await createFixture();
    await root.write(FILE, text, 0o600);
    kube.goDown();
    const { known, log } = begin();
    await settlePromises();
    expect([known.latest(), known.canStartPods()]).toEqual([undefined, false]);
    expect(log.lines.filter(({ message }) => message.startsWith("cannot use the saved Services"))).toHaveLength(1);
  });

test("a checkpoint that cannot be written is logged, and is written as soon as it can be", async () => {
  const { clock, root, make, begin } = await createFixture();
  await make("shop", "web");
  await root.remove("berth");
  const { fixture, known, log, names } = begin();
  fixture.namespaces = new Set(["shop"]);
  await settlePromises();
  await known.settled();
  expect(names()).toEqual(["shop/web"]);
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual([
    "warn: cannot save the Services yet; until they are saved, an agent that starts without the API server would not know them",
  ]);
  await root.makeFolder("berth", 0o700);
  await clock.advance(5_000);
  expect(await root.read(FILE, 1 << 20)).toContain("web");
  expect(log.takeLines()).toEqual(["info: the Services are saved again"]);
});

test("headless Services are not requested, malformed ones are ignored, and unlisted ones are removed", async () => {
  const reported: string[] = [];
  const good = { metadata: { name: "d", namespace: "shop" }, spec: { clusterIP: "10.96.0.1", ports: [{ port: 1 }] } };
  const odd = [
    { metadata: { name: "a", namespace: "shop" } },
    { metadata: { name: "b", namespace: "shop" }, spec: { clusterIP: "10.96.0.1", ports: "none" } },
    { metadata: { name: "c", namespace: "shop" }, spec: { clusterIP: "10.96.0.1", ports: [null, { port: 1 }] } },
  ];
  const notify = () => reported.push((component.latest() ?? []).map(nameOf).join(" "));
  const component = createServices({
    kube: {
      async listAndWatch(_resource, { fieldSelector = "" }, listener) {
        reported.push(fieldSelector);
        for (const all of [odd, [good]]) {
          listener.onReplaced(all as never, "1", false);
          notify();
        }
      },
    },
    clock: new FakeClock(),
    log: new FakeLog(),
    root: new FakeDisk(() => 0).at("/"),
    namespaces: () => new Set(),
    isApiSynced: () => true,
    onAvailable: () => {},
  });
  await component.run(new AbortController().signal);
  expect(reported).toEqual(["spec.clusterIP!=None", "shop/c", "shop/d"]);
});
