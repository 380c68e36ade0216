import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { services } from "../../../kube/resource.ts";
import type { Service, ServiceSpec } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createServices } from "./services.ts";

const FILE = "berth/services.json";

async function createScene() {
  const clock = new FakeClock();
  const disk = new FakeDisk(clock.now);
  const kube = new FakeKube({ clock });
  const root = disk.at("/root");
  await disk.at("/").makeFolder("root/berth", 0o700);
  const make = async (namespace: string, name: string, spec: ServiceSpec = {}) => {
    const whole = { clusterIP: "10.96.0.1", ports: [{ port: 80, targetPort: 8080 }], ...spec };
    await kube.user.create(services(namespace), { metadata: { name, namespace }, spec: whole });
    await rest();
  };
  /** An agent; the next one finds what it has kept. */
  const begin = () => {
    const log = new FakeLog();
    const end = new AbortController();
    const scene = { reads: 0, isApiHeard: false, namespaces: new Set<string>() };
    const known = createServices({
      kube,
      log,
      root,
      namespaces: () => scene.namespaces,
      isApiHeard: () => scene.isApiHeard,
      read: () => {
        scene.reads += 1;
      },
    });
    const followed = known.follow(end.signal);
    const stop = async () => {
      end.abort();
      await followed;
    };
    return { scene, known, log, stop, names: () => known.latest()?.map(nameOf) };
  };
  return { clock, kube, root, make, begin };
}
const nameOf = ({ metadata: { namespace, name } }: Service) => `${namespace}/${name}`;

test("nothing is known until all were read, and then every change", async () => {
  const { kube, make, begin } = await createScene();
  await make("shop", "web");
  const letGo = kube.hang("watch");
  const { scene, known, names } = begin();
  await rest();
  expect([names(), known.areRead(), scene.reads]).toEqual([undefined, false, 0]);
  letGo();
  await rest();
  expect([names(), known.areRead(), scene.reads]).toEqual([["shop/web"], true, 1]);
  await make("bank", "safe");
  await kube.user.delete(services("shop"), "web");
  await rest();
  expect([names(), scene.reads]).toEqual([["bank/safe"], 1]);
});

test("what no variable tells of is not kept", async () => {
  const { kube, make, begin } = await createScene();
  await make("shop", "web", {
    type: "ClusterIP",
    ports: [{ name: "http", port: 80, protocol: "TCP", nodePort: 30_080 }],
  });
  await make("shop", "headless", { clusterIP: "None" });
  await make("shop", "elsewhere", { clusterIP: "", externalName: "a.test" });
  const { known, names } = begin();
  await rest();
  expect(known.latest()).toEqual([
    {
      metadata: { namespace: "shop", name: "web" },
      spec: { clusterIP: "10.96.0.1", ports: [{ name: "http", port: 80, protocol: "TCP" }] },
    },
  ]);
  expect(kube.watches).toBe(1);
  await kube.user.patch(services("shop"), "web", { type: "merge", body: { spec: { clusterIP: "" } } });
  await rest();
  expect(names()).toEqual([]);
});

test("a Service that is none as we know them costs only itself", async () => {
  const { kube, make, begin } = await createScene();
  const odd = (spec: object) => spec as ServiceSpec;
  const ports = [{ port: 80 }, null, { port: "http" }, { name: 5, port: 81, protocol: {} }];
  await make("shop", "web", odd({ ports }));
  await make("shop", "number", odd({ clusterIP: 5 }));
  await make("shop", "object", odd({ ports: {} }));
  const { known } = begin();
  await rest();
  expect(known.latest()?.map(({ metadata, spec }) => [metadata.name, spec.ports])).toEqual([
    ["web", [{ port: 80 }, { port: 81 }]],
  ]);
  expect(kube.watches).toBe(1);
});

test("an outage changes nothing of what was read; what is refused before is told, and its end", async () => {
  const { clock, kube, make, begin } = await createScene();
  await make("shop", "web");
  kube.failures = { watch: [new KubeError("FORBIDDEN", "watch services: forbidden", { status: 403 })] };
  const { log, names } = begin();
  await rest();
  await clock.advance(60_000);
  await rest();
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

test("what the pods of this node are told is kept for an agent that starts without the API server", async () => {
  const { kube, root, make, begin } = await createScene();
  for (const [namespace, name] of [
    ["default", "kubernetes"],
    ["default", "other"],
    ["shop", "web"],
    ["bank", "safe"],
  ] as const)
    await make(namespace, name);
  const first = begin();
  await rest();
  expect(await root.stat(FILE)).toBeUndefined();
  first.scene.namespaces = new Set(["shop"]);
  first.known.used();
  await first.stop();

  kube.goDown();
  const next = begin();
  await rest();
  expect([next.names(), next.known.areRead(), next.scene.reads]).toEqual([["default/kubernetes", "shop/web"], true, 1]);
  // Whoever hears of pods will hear of Services too, and these may be old.
  next.scene.isApiHeard = true;
  expect(next.known.areRead()).toBe(false);
});

test("the copy is written when it says something else, and only then", async () => {
  const { root, make, begin } = await createScene();
  await make("shop", "web");
  const { scene, known } = begin();
  scene.namespaces = new Set(["shop"]);
  await rest();
  await root.remove(FILE);
  known.used();
  await make("bank", "safe");
  await known.settled();
  expect(await root.stat(FILE)).toBeUndefined();
  await make("shop", "db");
  await known.settled();
  expect((await root.read(FILE, 10_000)).includes("db")).toBe(true);
});

test("what an agent that died while it wrote has left is removed, and nothing else", async () => {
  const { root, begin } = await createScene();
  for (const name of [".services.json.1.tmp", ".other.json.1.tmp", "kept"])
    await root.write(`berth/${name}`, "", 0o600);
  begin();
  await rest();
  expect((await root.list("berth"))?.map(({ name }) => name)).toEqual([".other.json.1.tmp", "kept"]);
});

const broken: readonly [what: string, text: string][] = [
  ["torn", '{"version":1,"serv'],
  ["of another release", '{"version":2,"services":[]}'],
  ["no object", "null"],
  ["full of holes", '{"version":1,"services":[null]}'],
];
for (const [what, text] of broken)
  test(`a copy that is ${what} is none, and that is told`, async () => {
    const { kube, root, begin } = await createScene();
    await root.write(FILE, text, 0o600);
    kube.goDown();
    const { known, log } = begin();
    await rest();
    expect([known.latest(), known.areRead()]).toEqual([undefined, false]);
    expect(
      log.lines.filter(({ message }) => message.startsWith("the copy of the Services cannot be used")),
    ).toHaveLength(1);
  });

test("a disk that takes no copy is told of, and keeps nobody from anything", async () => {
  const { root, make, begin } = await createScene();
  await make("shop", "web");
  await root.remove("berth");
  const { scene, known, log, names } = begin();
  scene.namespaces = new Set(["shop"]);
  await rest();
  await known.settled();
  expect(names()).toEqual(["shop/web"]);
  expect(log.lines.map(({ message }) => message)).toContain(
    "the Services cannot be kept: a start without the API server would not know them",
  );
});

test("headless Services are not asked for, what is no Service is left aside, and what is gone from a list is gone", async () => {
  const told: string[] = [];
  const good = { metadata: { name: "d", namespace: "shop" }, spec: { clusterIP: "10.96.0.1", ports: [{ port: 1 }] } };
  const odd = [
    { metadata: { name: "a", namespace: "shop" } },
    { metadata: { name: "b", namespace: "shop" }, spec: { clusterIP: "10.96.0.1", ports: "none" } },
    { metadata: { name: "c", namespace: "shop" }, spec: { clusterIP: "10.96.0.1", ports: [null, { port: 1 }] } },
  ];
  const tell = () => told.push((room.latest() ?? []).map(nameOf).join(" "));
  const room = createServices({
    kube: {
      async follow(_resource, { fieldSelector = "" }, listener) {
        told.push(fieldSelector);
        for (const all of [odd, [good]]) {
          listener.replaced(all as never, "1", false);
          tell();
        }
      },
    },
    log: new FakeLog(),
    root: new FakeDisk(() => 0).at("/"),
    namespaces: () => new Set(),
    isApiHeard: () => true,
    read: () => {},
  });
  await room.follow(new AbortController().signal);
  expect(told).toEqual(["spec.clusterIP!=None", "shop/c", "shop/d"]);
});
