import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { ImagePullServiceAccount } from "../../../proto/kubelet/image-records.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { createServiceAccountLookups } from "./service-account-lookups.ts";

const IMAGE = "registry.example/app:1";
const account: ImagePullServiceAccount = { uid: "u-robot", namespace: "shop", name: "robot" };
const pod: Pod = {
  metadata: { name: "web", namespace: "shop" },
  spec: { containers: [], serviceAccountName: "robot" },
};
const web = { uid: "uid-web" as PodUid, pod };

type Answer = ImagePullServiceAccount | undefined | KubeError;

function createFixture() {
  const clock = new FakeClock();
  const requests: PromiseWithResolvers<ImagePullServiceAccount | undefined>[] = [];
  const woken: PodUid[] = [];
  const lookups = createServiceAccountLookups({
    clock,
    accountFor() {
      const request = Promise.withResolvers<ImagePullServiceAccount | undefined>();
      requests.push(request);
      return request.promise;
    },
    onResult: (uid) => woken.push(uid),
  });
  async function answer(with_: Answer): Promise<void> {
    if (with_ instanceof KubeError) requests.at(-1)?.reject(with_);
    else requests.at(-1)?.resolve(with_);
    await settlePromises();
  }
  return { clock, lookups, requests, woken, answer, latest: () => lookups.latest(web, IMAGE) };
}

const unreadable = { kind: "unreadable", namespace: "shop", name: "robot" };
const answers: readonly [name: string, answer: Answer, result: unknown][] = [
  ["the account", account, { kind: "found", account }],
  ["no account that a credential provider uses", undefined, { kind: "none" }],
  ["a deleted account", new KubeError("NOT_FOUND", "gone"), { kind: "none" }],
  ["a forbidden account", new KubeError("FORBIDDEN", "no"), { kind: "none" }],
  ["an API server that is away", new KubeError("UNREACHABLE", "away"), unreadable],
  ["an API server that does not answer in time", new KubeError("TIMEOUT", "late"), unreadable],
  ["an API server that fails", new KubeError("SERVER", "500"), unreadable],
];
for (const [name, answered, result] of answers)
  test(`a lookup is pending until its result wakes the pod: ${name}`, async () => {
    const { lookups, woken, answer, latest, clock } = createFixture();
    expect(latest()).toEqual({ kind: "pending" });
    lookups.lookUp(web, IMAGE);
    expect([latest(), woken]).toEqual([{ kind: "pending" }, []]);
    await answer(answered);
    expect([latest(), woken]).toEqual([result as ReturnType<typeof latest>, [web.uid]]);
    expect(clock.pendingTimers).toBe(0);
  });

test("a result is fresh for five seconds; meanwhile, and while a request is under way, nothing is sent", async () => {
  const { clock, lookups, requests, answer, latest } = createFixture();
  lookups.lookUp(web, IMAGE);
  lookups.lookUp(web, IMAGE);
  await answer(account);
  await clock.advance(4_999);
  lookups.lookUp(web, IMAGE);
  expect([requests.length, latest().kind]).toEqual([1, "found"]);
  await clock.advance(1);
  expect(latest()).toEqual({ kind: "pending" });
  lookups.lookUp(web, IMAGE);
  expect(requests).toHaveLength(2);
});

test("after a second without an answer the account counts as unreadable, until a late answer replaces that", async () => {
  const { clock, lookups, requests, woken, answer, latest } = createFixture();
  lookups.lookUp(web, IMAGE);
  await clock.advance(999);
  expect([latest().kind, woken]).toEqual(["pending", []]);
  await clock.advance(1);
  expect([latest().kind, woken]).toEqual(["unreadable", [web.uid]]);
  await clock.advance(60_000);
  lookups.lookUp(web, IMAGE);
  expect([latest().kind, requests.length]).toEqual(["unreadable", 1]);
  await answer(account);
  expect([latest().kind, woken]).toEqual(["found", [web.uid, web.uid]]);
});

test("each image of each pod has its own lookup", async () => {
  const { lookups, requests, answer, latest } = createFixture();
  lookups.lookUp(web, "registry.example/other:1");
  await answer(account);
  lookups.lookUp({ uid: "uid-other" as PodUid, pod }, IMAGE);
  expect([requests.length, latest()]).toEqual([2, { kind: "pending" }]);
});

test("the answer for a pod that is gone, and an answer after the stop, wake no pod", async () => {
  for (const end of ["forget", "stop"] as const) {
    const { clock, lookups, woken, answer, latest } = createFixture();
    lookups.lookUp(web, IMAGE);
    if (end === "forget") lookups.forget(web.uid);
    else lookups.stop();
    await answer(account);
    await clock.advance(2_000);
    expect([woken, latest(), clock.pendingTimers]).toEqual([[], { kind: "pending" }, 0]);
  }
});
