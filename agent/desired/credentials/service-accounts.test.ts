import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import { pods, serviceAccounts } from "../../../kube/resource.ts";
import type { TokenAttributes } from "../../../proto/kubelet/credential-provider.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { createServiceAccounts } from "./service-accounts.ts";

const attributes: TokenAttributes = {
  serviceAccountTokenAudience: "registry",
  cacheType: "ServiceAccount",
  requireServiceAccount: true,
  requiredServiceAccountAnnotationKeys: ["role"],
  optionalServiceAccountAnnotationKeys: ["team", "gone"],
};

async function cluster() {
  const clock = new FakeClock();
  const kube = new FakeKube({ clock });
  const annotations = { role: "puller", team: "blue", other: "x" };
  await kube.user.create(serviceAccounts("shop"), { metadata: { name: "robot", namespace: "shop", annotations } });
  const createPod = (name: string) =>
    kube.user.create<Pod>(pods("shop"), {
      metadata: { name },
      spec: { containers: [], serviceAccountName: "robot" },
    });
  const [web, other] = [await createPod("web"), await createPod("other")];
  return { clock, kube, accounts: createServiceAccounts({ kube, clock }), web, other };
}
const tokenCalls = ({ calls }: FakeKube) => calls.filter((call) => call.endsWith("/token"));

test("an account contains only the requested annotations", async () => {
  const { accounts, web } = await cluster();
  expect(await accounts.accountOf(web, attributes)).toMatchObject({
    namespace: "shop",
    name: "robot",
    uid: expect.stringMatching(/./),
    annotations: { role: "puller", team: "blue" },
  });
});

test("an account without a required annotation is undefined", async () => {
  const { accounts, web } = await cluster();
  const strict = { ...attributes, requiredServiceAccountAnnotationKeys: ["missing"] };
  expect(await accounts.accountOf(web, strict)).toBeUndefined();
});

test("a token is requested once per pod and audience for most of its lifetime", async () => {
  const { clock, kube, accounts, web, other } = await cluster();
  const account = (await accounts.accountOf(web, attributes))!;
  const [first, same] = await Promise.all([0, 1].map(() => accounts.tokenOf(web, account, "registry")));
  expect(first).toBe(same!);
  expect(first).toContain("of robot for registry");
  await accounts.tokenOf(other, account, "registry");
  await accounts.tokenOf(web, account, "elsewhere");
  expect(tokenCalls(kube)).toHaveLength(3);
  await clock.advance(0.8 * 3_600_000 - 1);
  await accounts.tokenOf(web, account, "registry");
  expect(tokenCalls(kube)).toHaveLength(3);
  await clock.advance(1);
  expect(await accounts.tokenOf(web, account, "registry")).not.toBe(first!);
});

test("a failed request is repeated at the next call, and another account of the same name is refused", async () => {
  const { kube, accounts, web } = await cluster();
  const account = (await accounts.accountOf(web, attributes))!;
  kube.failures.create = [new KubeError("FORBIDDEN", "no")];
  const ask = (uid = account.uid) =>
    accounts.tokenOf(web, { ...account, uid }, "registry").catch((error: unknown) => error);
  expect(await ask()).toMatchObject({ code: "FORBIDDEN" });
  expect(await ask()).toContain("of robot");
  expect(await ask("another")).toMatchObject({ code: "CONFLICT" });
});

test("a response without a token is not cached", async () => {
  const { clock, kube, web } = await cluster();
  const tokens = ["", "t"];
  const accounts = createServiceAccounts({
    kube: {
      get: kube.get,
      async requestToken(...args) {
        const { status, ...response } = await kube.requestToken(...args);
        return { ...response, status: { ...status!, token: tokens.shift()! } };
      },
    },
    clock,
  });
  const account = (await accounts.accountOf(web, attributes))!;
  const ask = () => accounts.tokenOf(web, account, "registry").catch((error: unknown) => error);
  expect(await ask()).toMatchObject({ code: "SERVER" });
  expect(await ask()).toBe("t");
});

const accountCalls = ({ calls }: FakeKube) => calls.filter((call) => call.startsWith("get "));

test("concurrent reads of an account share one request, and the response is cached for a while", async () => {
  const { clock, kube, accounts, web } = await cluster();
  const ask = () => accounts.accountOf(web, attributes);
  await Promise.all([ask(), ask()]);
  await clock.advance(29_999);
  await ask();
  expect(accountCalls(kube)).toHaveLength(1);
  await clock.advance(1);
  await ask();
  expect(accountCalls(kube)).toHaveLength(2);
});

test("a failed read is not repeated for a moment", async () => {
  const { clock, kube, accounts, web } = await cluster();
  kube.failures.get = [new KubeError("TIMEOUT", "no answer")];
  const ask = () => accounts.accountOf(web, attributes).catch((error: unknown) => error);
  expect([await ask(), await ask()]).toEqual([
    expect.objectContaining({ code: "TIMEOUT" }),
    expect.objectContaining({ code: "TIMEOUT" }),
  ]);
  await clock.advance(5_000);
  expect(await ask()).toMatchObject({ name: "robot" });
});

test("a clock that was set back does not extend the validity of a token", async () => {
  const { kube, web } = await cluster();
  let now = Date.parse("2026-01-02T00:00:00Z");
  const accounts = createServiceAccounts({ kube, clock: { now: () => now } });
  const account = (await accounts.accountOf(web, attributes))!;
  await accounts.tokenOf(web, account, "registry");
  now -= 86_400_000;
  await accounts.tokenOf(web, account, "registry");
  expect(tokenCalls(kube)).toHaveLength(2);
});
