import { describe, expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { nodes, pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "./clock.ts";
import { FakeKube } from "./kube.ts";

const aPod = (name: string): Pod => ({
  metadata: { name },
  spec: { nodeName: "a", containers: [{ name: "c", image: "x" }] },
});
const running = { type: "strategic", subresource: "status", body: { status: { phase: "Running" } } } as const;
const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => "none",
    (error: KubeError) => error.code,
  );

/** A fake with one pod, and a follow of the pods of its node. */
async function aScene() {
  const clock = new FakeClock();
  const fake = new FakeKube({ clock });
  await fake.user.create(pods("shop"), aPod("web"));
  const told: string[] = [];
  const controller = new AbortController();
  const listener = {
    replaced: (objects: readonly Pod[]) =>
      void told.push(`replaced: ${objects.map(({ metadata }) => metadata.name).join(" ")}`),
    changed: (kind: string, pod: Pod) => void told.push(`${kind} ${pod.metadata.name}`),
    away: (error: KubeError) => void told.push(`away: ${error.code}`),
    back: () => void told.push("back"),
  };
  const end = fake.follow(pods(), { fieldSelector: "spec.nodeName=a" }, listener, controller.signal);
  await rest();
  return {
    clock,
    fake,
    told: () => told.splice(0),
    stop: async () => {
      controller.abort();
      await end;
    },
  };
}

describe("calls", () => {
  test("stand in the journal; those of somebody else do not", async () => {
    const { fake, stop } = await aScene();
    await fake.get(pods("shop"), "web");
    await fake.patch(pods("shop"), "web", running);
    await fake.list(nodes, {});
    await fake.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
    expect(fake.calls).toEqual(["watch pods", "get pods/shop/web", "patch pods/shop/web/status", "list nodes"]);
    await stop();
  });

  test("fail as they are told to, without effect, oldest first", async () => {
    const { fake, stop } = await aScene();
    fake.failures.patch = [new KubeError("TOO_MANY_REQUESTS", "later"), new KubeError("SERVER", "etcd is away")];
    const patch = () => fake.patch(pods("shop"), "web", running);
    expect(await codeOf(patch())).toBe("TOO_MANY_REQUESTS");
    expect(await codeOf(patch())).toBe("SERVER");
    expect((await fake.user.get(pods("shop"), "web")).status?.phase).toBe("Pending");
    expect(await codeOf(patch())).toBe("none");
    await stop();
  });

  test("may have their effect and lose their answer", async () => {
    const { fake, stop } = await aScene();
    fake.after.create = () => {
      throw new KubeError("UNREACHABLE", "cut");
    };
    expect(await codeOf(fake.create(pods("shop"), aPod("db")))).toBe("UNREACHABLE");
    expect((await fake.user.get(pods("shop"), "db")).metadata.name).toBe("db");
    await stop();
  });

  test("that are held end at their deadline, and have no effect later", async () => {
    const { clock, fake, stop } = await aScene();
    const release = fake.hang("patch");
    const code = codeOf(fake.patch(pods("shop"), "web", running, { deadlineMs: 5_000 }));
    await clock.advance(5_000);
    expect(await code).toBe("TIMEOUT");
    release();
    await rest();
    expect((await fake.user.get(pods("shop"), "web")).status?.phase).toBe("Pending");
    await stop();
  });

  test("end when the server dies, and fail until it is back", async () => {
    const { fake, stop } = await aScene();
    fake.hang("get");
    const held = codeOf(fake.get(pods("shop"), "web"));
    await rest();
    fake.goDown();
    expect(await held).toBe("UNREACHABLE");
    expect(await codeOf(fake.list(nodes, {}))).toBe("UNREACHABLE");
    fake.comeBack();
    expect(await codeOf(fake.list(nodes, {}))).toBe("none");
    await stop();
  });

  test("leave no timer behind", async () => {
    const { clock, fake, stop } = await aScene();
    await fake.get(pods("shop"), "web");
    await stop();
    expect(clock.timers).toBe(0);
    expect(fake.watches).toBe(0);
  });
});

describe("a watch", () => {
  test("of an hour is renewed now and then, and nobody hears of it", async () => {
    const { clock, fake, told, stop } = await aScene();
    await clock.advance(3_600_000);
    fake.bind(
      "shop",
      (await fake.user.create(pods("shop"), { ...aPod("db"), spec: { containers: [] } })).metadata.name!,
      "a",
    );
    await rest();
    expect(told()).toEqual(["replaced: web", "added db"]);
    expect(fake.calls.length).toBe(13);
    expect(fake.watches).toBe(1);
    await stop();
  });

  test("goes on after an outage with what has happened meanwhile", async () => {
    const { clock, fake, told, stop } = await aScene();
    fake.goDown();
    await clock.advance(60_000);
    await fake.user.create(pods("shop"), aPod("db"));
    fake.comeBack();
    await clock.advance(30_000);
    expect(told()).toEqual(["replaced: web", "away: UNREACHABLE", "back", "added db"]);
    await stop();
  });

  test("begins anew when the past was forgotten", async () => {
    const { clock, fake, told, stop } = await aScene();
    fake.cutWatches(new KubeError("UNREACHABLE", "cut"));
    await fake.user.create(pods("shop"), aPod("db"));
    fake.compact();
    await clock.advance(2_000);
    expect(told()).toEqual(["replaced: web", "away: UNREACHABLE", "back", "replaced: db web"]);
    await stop();
  });

  test("that is silent loses nothing", async () => {
    const { clock, fake, told, stop } = await aScene();
    fake.silence();
    await fake.user.create(pods("shop"), aPod("db"));
    await clock.advance(74_000);
    expect(told()).toEqual(["replaced: web"]);
    await clock.advance(1_000);
    expect(told()).toEqual(["added db"]);
    await stop();
  });

  test("is refused initial events by an older server", async () => {
    const clock = new FakeClock();
    const fake = new FakeKube({ clock });
    fake.hasInitialEvents = false;
    const controller = new AbortController();
    const listener = { replaced() {}, changed() {}, away() {}, back() {} };
    const end = fake.follow(pods(), {}, listener, controller.signal);
    await rest();
    expect(fake.calls).toEqual(["watch pods", "list pods", "watch pods"]);
    controller.abort();
    await end;
  });
});

test("a list whose pages are forgotten is listed in one piece", async () => {
  const fake = new FakeKube({ clock: new FakeClock() });
  for (let count = 0; count < 501; count += 1) await fake.user.create(pods("shop"), aPod(`pod-${count}`));
  fake.before.list = () => {
    if (fake.calls.length === 2) fake.compact();
  };
  expect((await fake.list(pods(), {})).items.length).toBe(501);
  expect(fake.calls).toEqual(["list pods", "list pods", "list pods"]);
});
