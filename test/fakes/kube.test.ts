import { describe, expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import { nodes, pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "./clock.ts";
import { FakeKube } from "./kube.ts";

const buildPod = (name: string): Pod => ({
  metadata: { name },
  spec: { nodeName: "a", containers: [{ name: "c", image: "x" }] },
});
const running = { type: "strategic", subresource: "status", body: { status: { phase: "Running" } } } as const;
const errorCodeOf = (call: Promise<unknown>) =>
  call.then(
    () => "none",
    (error: KubeError) => error.code,
  );

/**
 * A fake with one pod, and a reflector of the pods of its node; `reported` returns what the reflector reported since the
 * last call.
 */
async function createFixture() {
  const clock = new FakeClock();
  const fake = new FakeKube({ clock });
  await fake.user.create(pods("shop"), buildPod("web"));
  const reports: string[] = [];
  const controller = new AbortController();
  const listener = {
    onReplaced: (objects: readonly Pod[]) =>
      void reports.push(`replaced: ${objects.map(({ metadata }) => metadata.name).join(" ")}`),
    onChanged: (kind: string, pod: Pod) => void reports.push(`${kind} ${pod.metadata.name}`),
    onOutage: (error: KubeError) => void reports.push(`away: ${error.code}`),
    onRecovered: () => void reports.push("back"),
  };
  const end = fake.listAndWatch(pods(), { fieldSelector: "spec.nodeName=a" }, listener, controller.signal);
  await settlePromises();
  return {
    clock,
    fake,
    reported: () => reports.splice(0),
    stop: async () => {
      controller.abort();
      await end;
    },
  };
}

describe("calls", () => {
  test("are recorded; those of `user` are not", async () => {
    const { fake, stop } = await createFixture();
    await fake.get(pods("shop"), "web");
    await fake.patch(pods("shop"), "web", running);
    await fake.list(nodes, {});
    await fake.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
    expect(fake.calls).toEqual(["watch pods", "get pods/shop/web", "patch pods/shop/web/status", "list nodes"]);
    await stop();
  });

  test("fail with the injected failures, oldest first, and have no effect then", async () => {
    const { fake, stop } = await createFixture();
    fake.failures.patch = [new KubeError("TOO_MANY_REQUESTS", "later"), new KubeError("SERVER", "etcd is unavailable")];
    const patch = () => fake.patch(pods("shop"), "web", running);
    expect(await errorCodeOf(patch())).toBe("TOO_MANY_REQUESTS");
    expect(await errorCodeOf(patch())).toBe("SERVER");
    expect((await fake.user.get(pods("shop"), "web")).status?.phase).toBe("Pending");
    expect(await errorCodeOf(patch())).toBe("none");
    await stop();
  });

  test("can take effect and lose their answer", async () => {
    const { fake, stop } = await createFixture();
    fake.after.create = () => {
      throw new KubeError("UNREACHABLE", "cut");
    };
    expect(await errorCodeOf(fake.create(pods("shop"), buildPod("db")))).toBe("UNREACHABLE");
    expect((await fake.user.get(pods("shop"), "db")).metadata.name).toBe("db");
    await stop();
  });

  test("that hang end at their deadline, and have no effect later", async () => {
    const { clock, fake, stop } = await createFixture();
    const release = fake.hang("patch");
    const code = errorCodeOf(fake.patch(pods("shop"), "web", running, { deadlineMs: 5_000 }));
    await clock.advance(5_000);
    expect(await code).toBe("TIMEOUT");
    release();
    await settlePromises();
    expect((await fake.user.get(pods("shop"), "web")).status?.phase).toBe("Pending");
    await stop();
  });

  test("in progress fail when the server dies, and new ones fail until it is back", async () => {
    const { fake, stop } = await createFixture();
    fake.hang("get");
    const held = errorCodeOf(fake.get(pods("shop"), "web"));
    await settlePromises();
    fake.goDown();
    expect(await held).toBe("UNREACHABLE");
    expect(await errorCodeOf(fake.list(nodes, {}))).toBe("UNREACHABLE");
    fake.comeBack();
    expect(await errorCodeOf(fake.list(nodes, {}))).toBe("none");
    await stop();
  });

  test("leave no timer and no watch behind", async () => {
    const { clock, fake, stop } = await createFixture();
    await fake.get(pods("shop"), "web");
    await stop();
    expect(clock.pendingTimers).toBe(0);
    expect(fake.openWatches).toBe(0);
  });
});

describe("a watch", () => {
  test("of an hour is renewed several times without a report to the listener", async () => {
    const { clock, fake, reported: reports, stop } = await createFixture();
    await clock.advance(3_600_000);
    fake.bind(
      "shop",
      (await fake.user.create(pods("shop"), { ...buildPod("db"), spec: { containers: [] } })).metadata.name!,
      "a",
    );
    await settlePromises();
    expect(reports()).toEqual(["replaced: web", "added db"]);
    expect(fake.calls.length).toBe(13);
    expect(fake.openWatches).toBe(1);
    await stop();
  });

  test("resumes after an outage and delivers the changes in between", async () => {
    const { clock, fake, reported: reports, stop } = await createFixture();
    fake.goDown();
    await clock.advance(60_000);
    await fake.user.create(pods("shop"), buildPod("db"));
    fake.comeBack();
    await clock.advance(30_000);
    expect(reports()).toEqual(["replaced: web", "away: UNREACHABLE", "back", "added db"]);
    await stop();
  });

  test("lists again when the history was compacted", async () => {
    const { clock, fake, reported: reports, stop } = await createFixture();
    fake.breakWatches(new KubeError("UNREACHABLE", "cut"));
    await fake.user.create(pods("shop"), buildPod("db"));
    fake.compact();
    await clock.advance(2_000);
    expect(reports()).toEqual(["replaced: web", "away: UNREACHABLE", "back", "replaced: db web"]);
    await stop();
  });

  test("a watch that stops sending is replaced by another, and no change is lost", async () => {
    const { clock, fake, reported: reports, stop } = await createFixture();
    fake.silenceWatches();
    await fake.user.create(pods("shop"), buildPod("db"));
    await clock.advance(74_000);
    expect(reports()).toEqual(["replaced: web"]);
    await clock.advance(1_000);
    expect(reports()).toEqual(["added db"]);
    await stop();
  });

  test("starts with a list at an older server, which refuses initial events", async () => {
    const clock = new FakeClock();
    const fake = new FakeKube({ clock });
    fake.supportsInitialEvents = false;
    const controller = new AbortController();
    const listener = { onReplaced() {}, onChanged() {}, onOutage() {}, onRecovered() {} };
    const end = fake.listAndWatch(pods(), {}, listener, controller.signal);
    await settlePromises();
    expect(fake.calls).toEqual(["watch pods", "list pods", "watch pods"]);
    controller.abort();
    await end;
  });
});

test("a list whose continue token has expired is repeated without pages", async () => {
  const fake = new FakeKube({ clock: new FakeClock() });
  for (let count = 0; count < 501; count += 1) await fake.user.create(pods("shop"), buildPod(`pod-${count}`));
  fake.before.list = () => {
    if (fake.calls.length === 2) fake.compact();
  };
  expect((await fake.list(pods(), {})).items.length).toBe(501);
  expect(fake.calls).toEqual(["list pods", "list pods", "list pods"]);
});
