import { beforeEach, expect, test } from "bun:test";
import { orAborted } from "../../../../host/async/abort.ts";
import { KubeError } from "../../../../kube/error.ts";
import type { SubjectAccessReviewSpec, TokenReviewStatus } from "../../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../../test/fakes/clock.ts";
import { createAccessAuthorizer } from "./access-authorizer.ts";
import { createTokenAuthenticator } from "./token-authenticator.ts";

const { signal } = new AbortController();
const away = new KubeError("UNREACHABLE", "the API server is away");
let clock: FakeClock;
beforeEach(() => {
  clock = new FakeClock();
});

function tokens(review: (token: string) => TokenReviewStatus | Promise<TokenReviewStatus>) {
  const asked: string[] = [];
  const authenticate = createTokenAuthenticator({
    async reviewToken(token, left = signal) {
      asked.push(token);
      return await orAborted(Promise.resolve(review(token)), left);
    },
    cacheTtlMs: 120_000,
    clock,
  });
  return { asked, authenticate };
}

const anna: TokenReviewStatus = { authenticated: true, user: { username: "anna", groups: ["a"] } };

test("the answer about a token is kept for its time, then the API server is asked again", async () => {
  const { asked, authenticate } = tokens(() => anna);
  for (let i = 0; i < 3; i++) expect(await authenticate("t", signal)).toEqual({ username: "anna", groups: ["a"] });
  await clock.advance(119_999);
  await authenticate("t", signal);
  expect(asked).toEqual(["t"]);
  await clock.advance(1);
  await authenticate("t", signal);
  expect(asked).toEqual(["t", "t"]);
});

test("requests with one token at the same time share one question, also if the first of them goes away", async () => {
  const { promise, resolve } = Promise.withResolvers<TokenReviewStatus>();
  const { asked, authenticate } = tokens(() => promise);
  const first = new AbortController();
  const [gone, other] = [authenticate("t", first.signal), authenticate("t", signal)];
  first.abort(new Error("gone"));
  await expect(gone).rejects.toThrow("gone");
  resolve(anna);
  expect(await other).toMatchObject({ username: "anna" });
  expect(asked).toEqual(["t"]);
});

test("a refusal is kept, one with a reason is not, and neither names a user", async () => {
  const { asked, authenticate } = tokens((token) =>
    token === "bad" ? { authenticated: false } : { error: "[invalid bearer token]" },
  );
  for (let i = 0; i < 2; i++) expect(await authenticate("bad", signal)).toBeUndefined();
  for (let i = 0; i < 2; i++) expect(await authenticate("unknown", signal)).toBeUndefined();
  expect(asked).toEqual(["bad", "unknown", "unknown"]);
});

test("while the API server is away, known tokens stay valid and others reject", async () => {
  let isAway = false;
  const { authenticate } = tokens(() => {
    if (isAway) throw away;
    return anna;
  });
  await authenticate("known", signal);
  isAway = true;
  expect(await authenticate("known", signal)).toBeDefined();
  await expect(authenticate("new", signal)).rejects.toBe(away);
  isAway = false;
  expect(await authenticate("new", signal)).toBeDefined();
});

test("of a thousand guessed tokens a hundred wait, eight at a time are reviewed, and the others are refused at once", async () => {
  let [now, most] = [0, 0];
  const { asked, authenticate } = tokens(async () => {
    most = Math.max(most, ++now);
    await Bun.sleep(0);
    now--;
    return { authenticated: false };
  });
  const guesses = Array.from({ length: 1000 }, (_, index) => authenticate(`guess-${index}`, signal));
  const answers = await Promise.allSettled(guesses);
  const refused = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason.status] : []));
  expect([most, asked.length, refused.length, ...new Set(refused)]).toEqual([8, 100, 900, 429]);
  expect(await authenticate("later", signal)).toBeUndefined();
  expect(asked.at(-1)).toBe("later");
});

test("while guessed tokens wait, a known one is valid", async () => {
  const { authenticate } = tokens((token) => (token === "known" ? anna : new Promise(() => {})));
  await authenticate("known", signal);
  const clients = new AbortController();
  const guesses = Array.from({ length: 200 }, (_, index) => authenticate(`guess-${index}`, clients.signal));
  expect(await authenticate("known", signal)).toMatchObject({ username: "anna" });
  clients.abort();
  await Promise.allSettled(guesses);
});

test("tokens whose clients have gone away are never reviewed, and leave their places to others", async () => {
  const { asked, authenticate } = tokens((token) => (token === "real" ? anna : new Promise(() => {})));
  const guesses: Promise<unknown>[] = [];
  const clients = new AbortController();
  for (let index = 0; index < 100; index++) guesses.push(authenticate(`guess-${index}`, clients.signal));
  await expect(authenticate("real", signal)).rejects.toMatchObject({ status: 429 });
  clients.abort(new Error("gone"));
  const left = await Promise.allSettled(guesses);
  expect(left.filter((answer) => answer.status === "rejected" && answer.reason.message === "gone")).toHaveLength(100);
  expect(await authenticate("real", signal)).toMatchObject({ username: "anna" });
  // Eight had been sent before their clients left.
  expect(asked).toEqual([...Array.from({ length: 8 }, (_, index) => `guess-${index}`), "real"]);
});

test.each([
  [16_384, 1],
  [16_385, 0],
])("of a token with %i characters the API server is asked %i times", async (length, times) => {
  const { asked, authenticate } = tokens(() => anna);
  await authenticate("t".repeat(length), signal);
  expect(asked).toHaveLength(times);
});

function access(isAllowed: (spec: SubjectAccessReviewSpec) => boolean, denied?: boolean) {
  const asked: SubjectAccessReviewSpec[] = [];
  const authorizer = createAccessAuthorizer({
    async reviewAccess(spec) {
      asked.push(spec);
      return { allowed: isAllowed(spec), ...(denied !== undefined && { denied }) };
    },
    nodeName: "node-a",
    allowedTtlMs: 300_000,
    deniedTtlMs: 30_000,
    clock,
  });
  const ask = (username = "anna", verb = "get") =>
    authorizer.isAllowed(
      { user: { username, groups: ["g"], uid: "7" }, verb, subresource: "log", path: "/logs/" },
      signal,
    );
  return { asked, ask };
}

test("the API server is asked for the node's subresource, with all that is known of the user", async () => {
  const { asked, ask } = access(() => true);
  expect(await ask()).toBe(true);
  expect(asked).toEqual([
    {
      user: "anna",
      uid: "7",
      groups: ["g"],
      resourceAttributes: { verb: "get", version: "v1", resource: "nodes", subresource: "log", name: "node-a" },
    },
  ]);
});

test("what is allowed is kept for five minutes, what is not for half a minute, each user and verb for itself", async () => {
  const { asked, ask } = access(({ user }) => user === "anna");
  for (let i = 0; i < 2; i++) expect([await ask("anna"), await ask("bert")]).toEqual([true, false]);
  expect(asked).toHaveLength(2);
  await ask("anna", "create");
  expect(asked).toHaveLength(3);
  await clock.advance(30_000);
  await ask("anna");
  await ask("bert");
  expect(asked.map(({ user }) => user)).toEqual(["anna", "bert", "anna", "bert"]);
  await clock.advance(270_000);
  await ask("anna");
  expect(asked).toHaveLength(5);
});

test("what an authorizer denies is denied, whatever another one allows", async () => {
  const { ask } = access(() => true, true);
  expect(await ask()).toBe(false);
});
