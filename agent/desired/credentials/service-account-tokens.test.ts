import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { pods, serviceAccounts } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, TokenRequest } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createServiceAccountTokens } from "./service-account-tokens.ts";

const minutes = 60_000;
const refused = () => new KubeError("FORBIDDEN", "POST /x: no", { status: 403, serverMessage: "no" });

async function createFixture({ random = 0 } = {}) {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const log = new FakeLog();
  const reported: string[] = [];
  const names = new Map<string, string>();
  const tokens = createServiceAccountTokens({
    kube,
    clock,
    random: () => random,
    log,
    onChange: (uid, key) => reported.push(`${names.get(uid)} ${JSON.parse(key.slice(key.indexOf('"')))}`.trim()),
  });
  const createAccount = () => kube.user.create(serviceAccounts("shop"), { metadata: { name: "robot" } });
  await createAccount();
  /** A pod with a projected volume of tokens for these audiences. */
  const createPod = async (name: string, ...audiences: readonly string[]): Promise<Pod> => {
    const sources = audiences.map((audience) => ({ serviceAccountToken: { path: audience || "token", audience } }));
    const pod = await kube.user.create<Pod>(pods("shop"), {
      metadata: { name },
      spec: { containers: [], serviceAccountName: "robot", volumes: [{ name: "v", projected: { sources } }] },
    });
    names.set(pod.metadata.uid ?? "", name);
    return pod;
  };
  const uidOf = ({ metadata }: Pod) => metadata.uid as PodUid;
  const end = new AbortController();
  const run = () => tokens.run(end.signal);
  return {
    ...{ clock, kube, log, tokens, createAccount, createPod, end, run },
    retain: (pod: Pod) => tokens.retain(uidOf(pod), pod),
    release: (pod: Pod) => tokens.release(uidOf(pod)),
    known: () => [...tokens.latest().values()].map((each) => ("failure" in each ? each.failure : each.token)),
    versions: () => [...tokens.versions().values()],
    requests: () => kube.calls.splice(0).filter((call) => call.endsWith("/token")).length,
    async changes(): Promise<readonly string[]> {
      await settlePromises();
      return reported.splice(0);
    },
  };
}

test("the tokens of a pod are requested at once, bound to the pod, and refreshed when a fifth of their life is left", async () => {
  const { clock, createPod, retain, run, changes, known, versions, requests } = await createFixture();
  void run();
  retain(await createPod("web", "", "vault"));
  expect(await changes()).toEqual(["web", "web vault"]);
  expect(known()).toEqual(["token 1 of robot for ", "token 2 of robot for vault"]);
  const before = versions();
  expect(requests()).toBe(2);
  await clock.advance(48 * minutes - 1);
  expect([requests(), await changes()]).toEqual([0, []]);
  await clock.advance(1);
  expect([requests(), await changes()]).toEqual([2, ["web", "web vault"]]);
  expect(known()).toEqual(["token 3 of robot for ", "token 4 of robot for vault"]);
  expect(new Set([...before, ...versions()]).size).toBe(4);
});

test("the request carries the pod, the audience and the lifetime", async () => {
  const clock = new FakeClock();
  const sent: unknown[] = [];
  const kube = {
    requestToken: (...args: readonly unknown[]) => {
      sent.push(args.slice(0, 3));
      return new Promise<never>(() => {});
    },
    subscribeToRecovery: () => {},
  };
  const tokens = createServiceAccountTokens({ kube, clock, random: () => 0, log: new FakeLog(), onChange: () => {} });
  void tokens.run(new AbortController().signal);
  const serviceAccountToken = { path: "token", audience: "vault", expirationSeconds: 700 };
  tokens.retain("u1" as PodUid, {
    metadata: { name: "web", namespace: "shop", uid: "u1" },
    spec: { containers: [], volumes: [{ name: "v", projected: { sources: [{ serviceAccountToken }] } }] },
  });
  await settlePromises();
  const boundObjectRef = { apiVersion: "v1", kind: "Pod", name: "web", uid: "u1" };
  const spec = { audiences: ["vault"], boundObjectRef, expirationSeconds: 700 };
  expect(sent).toEqual([["shop", "default", { metadata: {}, spec }]]);
});

test("a response that arrives although its request was cancelled is ignored", async () => {
  const granted: TokenRequest = { metadata: {}, spec: {}, status: { token: "late" } };
  const { promise, resolve } = Promise.withResolvers<TokenRequest>();
  const kube = { requestToken: () => promise, subscribeToRecovery: () => {} };
  const clock = new FakeClock();
  const changes: string[] = [];
  const onChange = (_: PodUid, key: string) => changes.push(key);
  const tokens = createServiceAccountTokens({ kube, clock, random: () => 0, log: new FakeLog(), onChange });
  void tokens.run(new AbortController().signal);
  const serviceAccountToken = { path: "token" };
  tokens.retain("u1" as PodUid, {
    metadata: { uid: "u1" },
    spec: { containers: [], volumes: [{ name: "v", projected: { sources: [{ serviceAccountToken }] } }] },
  });
  await settlePromises();
  tokens.release("u1" as PodUid);
  resolve(granted);
  await settlePromises();
  expect([changes, tokens.latest().size, clock.pendingTimers]).toEqual([[], 0, 0]);
});

test("one timer runs for all tokens, and none without a token", async () => {
  const { clock, createPod, retain, release, run, changes } = await createFixture();
  void run();
  const [web, db] = [await createPod("web", ""), await createPod("db", "", "vault")];
  await settlePromises();
  expect(clock.pendingTimers).toBe(0);
  for (const pod of [web, db]) retain(pod);
  await changes();
  expect(clock.pendingTimers).toBe(1);
  release(web);
  await settlePromises();
  expect(clock.pendingTimers).toBe(1);
  release(db);
  await settlePromises();
  expect(clock.pendingTimers).toBe(0);
});

test("a change of a pod that leaves its tokens as they are sets no timer", async () => {
  const { clock, createPod, retain, release, run, changes } = await createFixture();
  const { wakeAt } = clock;
  let timers = 0;
  Object.assign(clock, {
    wakeAt(...args: Parameters<typeof wakeAt>) {
      timers += 1;
      return wakeAt.apply(clock, args);
    },
  });
  void run();
  const [web, bare] = [await createPod("web", ""), await createPod("bare")];
  retain(web);
  await changes();
  expect(timers).toBeGreaterThan(0);
  timers = 0;
  retain({ ...web, status: { phase: "Running" } });
  retain(bare);
  release(bare);
  await changes();
  expect(timers).toBe(0);
});

test("nothing is requested before run; what its end interrupts is not reported", async () => {
  const { clock, kube, createPod, retain, run, end, changes, requests } = await createFixture();
  retain(await createPod("web", ""));
  await settlePromises();
  expect([requests(), clock.pendingTimers]).toEqual([0, 0]);
  kube.before.create = () => new Promise(() => {});
  const ended = run();
  await settlePromises();
  expect(requests()).toBe(1);
  end.abort();
  await ended;
  expect([await changes(), clock.pendingTimers]).toEqual([[], 0]);
});

test("at most eight requests are under way", async () => {
  const { kube, createPod, retain, run, changes, requests } = await createFixture();
  void run();
  const { promise, resolve } = Promise.withResolvers<void>();
  kube.before.create = () => promise;
  for (let count = 0; count < 10; count += 1) retain(await createPod(`web-${count}`, ""));
  await settlePromises();
  expect(requests()).toBe(8);
  resolve();
  expect(await changes()).toHaveLength(10);
  expect(requests()).toBe(2);
});

test("a full node that starts gets all its tokens without a failure, although the requests wait for each other", async () => {
  const { clock, kube, createPod, retain, run, known } = await createFixture();
  const requestToken = kube.requestToken.bind(kube);
  kube.requestToken = async (...args) => {
    await new Promise<void>((resolve) => clock.wakeAt(clock.now() + 100, resolve));
    return await requestToken(...args);
  };
  void run();
  for (let pod = 0; pod < 110; pod++) retain(await createPod(`web-${pod}`, ""));
  for (let step = 0; step < 30; step++) await clock.advance(100);
  expect(known().filter((each) => each.startsWith("failed"))).toEqual([]);
  expect(known()).toHaveLength(110);
});

test("a released pod's tokens are forgotten, and a late response is ignored", async () => {
  const { kube, tokens, createPod, retain, release, run, changes, known } = await createFixture();
  void run();
  const [web, late] = [await createPod("web", ""), await createPod("late", "")];
  retain(web);
  await changes();
  const { promise, resolve } = Promise.withResolvers<void>();
  kube.after.create = () => promise;
  retain(late);
  await settlePromises();
  release(web);
  release(late);
  release(late);
  resolve();
  expect([await changes(), known(), tokens.versions().size]).toEqual([[], [], 0]);
});

test("a changed pod gets the tokens that it asks for now, and keeps the others", async () => {
  const { createPod, retain, run, changes, known } = await createFixture();
  void run();
  const pod = await createPod("web", "old", "both");
  retain(pod);
  await changes();
  const sources = ["both", "added"].map((audience) => ({ serviceAccountToken: { path: audience, audience } }));
  retain({ ...pod, spec: { ...pod.spec, volumes: [{ name: "v", projected: { sources } }] } });
  expect(await changes()).toEqual(["web added"]);
  expect(known()).toEqual(["token 2 of robot for both", "token 3 of robot for added"]);
});

test("a missing account is reported once in the kubelet's words, and asked for again until it exists", async () => {
  const { clock, kube, createAccount, createPod, retain, run, changes, known, versions, requests, log } =
    await createFixture();
  void run();
  await kube.user.delete(serviceAccounts("shop"), "robot");
  retain(await createPod("web", ""));
  await clock.advance(999);
  expect([requests(), await changes()]).toEqual([4, []]);
  await clock.advance(1);
  expect(await changes()).toEqual(["web"]);
  expect([known(), versions()]).toEqual([['failed to fetch token: serviceaccounts "robot" not found'], ["failed"]]);
  // At 1.1, 1.6, 2.6 and 4.6 s.
  await clock.advance(3_600);
  expect([requests(), await changes()]).toEqual([4, []]);
  await createAccount();
  await clock.advance(4_000);
  expect([await changes(), known()]).toEqual([["web"], ["token 1 of robot for "]]);
  expect(log.takeLines()).toEqual([
    expect.stringMatching(
      /^error: the API server issues no token .* shop\/robot: .*serviceaccounts "robot" not found$/,
    ),
    "info: the API server issues tokens of the service account shop/robot",
  ]);
});

test("a pod that the API server does not know everywhere yet gets its token within a second, without a failure", async () => {
  const { clock, kube, createPod, retain, run, changes, known, log } = await createFixture();
  void run();
  const unknown = () =>
    new KubeError("NOT_FOUND", 'POST /x: pod "web" not found', { serverMessage: 'pod "web" not found' });
  kube.failures.create = [unknown(), unknown()];
  retain(await createPod("web", ""));
  await clock.advance(299);
  expect(await changes()).toEqual([]);
  await clock.advance(1);
  expect([await changes(), known(), log.lines]).toEqual([["web"], ["token 1 of robot for "], []]);
});

test("a pod that was replaced by another of its name gets no token", async () => {
  const { kube, createPod, retain, run, changes, known } = await createFixture();
  void run();
  const pod = await createPod("web", "");
  await kube.user.delete(pods("shop"), "web", { gracePeriodSeconds: 0 });
  await createPod("web", "");
  retain(pod);
  expect([await changes(), known()]).toEqual([
    ["web"],
    [expect.stringMatching(/^failed to fetch token: .*the UID in the bound object reference \(.*\) does not match/)],
  ]);
});

test("a pod waits a second for a server that hangs, and gets the token when it arrives", async () => {
  const { clock, kube, createPod, retain, run, changes, known } = await createFixture();
  void run();
  const { promise, resolve } = Promise.withResolvers<void>();
  kube.before.create = () => promise;
  retain(await createPod("web", ""));
  await clock.advance(999);
  expect(await changes()).toEqual([]);
  await clock.advance(1);
  expect([await changes(), known()]).toEqual([["web"], ["failed to fetch token: timed out waiting for the condition"]]);
  resolve();
  expect([await changes(), known()]).toEqual([["web"], ["token 1 of robot for "]]);
});

test("a failed refresh keeps the valid token until it expires", async () => {
  const { clock, kube, createPod, retain, run, changes, known, requests } = await createFixture();
  void run();
  retain(await createPod("web", ""));
  await changes();
  await clock.advance(48 * minutes - 1);
  requests();
  const heal = kube.failAll(refused);
  await clock.advance(12 * minutes);
  expect([requests(), await changes(), known()]).toEqual([7, [], ["token 1 of robot for "]]);
  await clock.advance(1);
  expect([await changes(), known()]).toEqual([["web"], ["token of shop/robot expired and refresh failed: no"]]);
  heal();
  await clock.advance(2 * minutes + 2_000);
  expect([await changes(), known()]).toEqual([["web"], ["token 2 of robot for "]]);
});

test("a success resets the back-off", async () => {
  const { clock, kube, createPod, retain, run, changes, requests } = await createFixture();
  void run();
  retain(await createPod("web", ""));
  await changes();
  for (let round = 0; round < 2; round += 1) {
    kube.failures.create = [refused(), refused()];
    await clock.advance(48 * minutes - 1);
    requests();
    await clock.advance(10_001);
    expect(requests()).toBe(2);
    await clock.advance(20_000);
    expect([requests(), await changes()]).toEqual([1, ["web"]]);
  }
});

test("the end of an outage ends the waits for the next try", async () => {
  const { clock, kube, createPod, retain, run, changes, known } = await createFixture();
  void run();
  kube.goDown();
  retain(await createPod("web", ""));
  await clock.advance(10 * minutes);
  await changes();
  kube.comeBack();
  await kube.list(pods("shop"), {});
  await clock.advance(0);
  expect([await changes(), known()]).toEqual([["web"], ["token 1 of robot for "]]);
});

test("a clock that is set back delays no refresh, and after a sleep of the machine an expired token is replaced", async () => {
  const { clock, createPod, retain, run, changes } = await createFixture();
  void run();
  retain(await createPod("web", ""));
  await changes();
  clock.stepWallClock(-60 * minutes);
  await clock.advance(48 * minutes);
  expect(await changes()).toEqual(["web"]);
  clock.stepWallClock(60 * minutes);
  retain(await createPod("db", ""));
  expect((await changes()).toSorted()).toEqual(["db", "web"]);
});

test("the refreshes of pods that started together are spread over ten seconds", async () => {
  const { clock, createPod, retain, run, changes } = await createFixture({ random: 0.5 });
  void run();
  retain(await createPod("web", ""));
  await changes();
  await clock.advance(48 * minutes - 5_001);
  expect(await changes()).toEqual([]);
  await clock.advance(1);
  expect(await changes()).toEqual(["web"]);
});

test("no token reaches a log line, a failure or a version", async () => {
  const { clock, kube, createPod, retain, run, known, tokens, log } = await createFixture();
  void run();
  retain(await createPod("web", ""));
  await clock.advance(1);
  const texts = known();
  for (let round = 0; round < 3; round += 1) {
    const heal = kube.failAll(refused);
    await clock.advance(90 * minutes);
    texts.push(...known());
    heal();
    await clock.advance(10 * minutes);
    texts.push(...known());
  }
  const issued = texts.filter((text) => /^token \d/.test(text));
  expect(issued.length).toBeGreaterThan(3);
  const shown = JSON.stringify([log.lines, [...tokens.versions()], texts.filter((text) => !issued.includes(text))]);
  expect(shown).toContain("expired and refresh failed");
  expect(issued.filter((token) => shown.includes(token))).toEqual([]);
});
