import { expect, test } from "bun:test";
import type { Pod, VolumeProjection } from "./gen/types.ts";
import { type TokenReference, tokenKey, tokenReferenceOf, tokenReferencesOf } from "./token-references.ts";

const podOf = (...sources: readonly VolumeProjection[]): Pod => ({
  metadata: { name: "web", namespace: "shop", uid: "u1" },
  spec: {
    containers: [],
    serviceAccountName: "robot",
    volumes: [
      { name: "other", emptyDir: {} },
      ...sources.map((each) => ({ name: "v", projected: { sources: [each] } })),
    ],
  },
});

test("a reference carries the API server's defaults", () => {
  expect(tokenReferenceOf({ metadata: {}, spec: { containers: [] } }, { path: "token" })).toEqual({
    namespace: "default",
    serviceAccount: "default",
    podName: "",
    podUid: "",
    audience: "",
    expirationSeconds: 3_600,
  });
});

test("a reference carries what the projection asks for", () => {
  const source = { path: "token", audience: "vault", expirationSeconds: 600 };
  expect(tokenReferenceOf(podOf(), source)).toEqual({
    namespace: "shop",
    serviceAccount: "robot",
    podName: "web",
    podUid: "u1",
    audience: "vault",
    expirationSeconds: 600,
  });
});

test("the tokens of all projected volumes are found, each once", () => {
  const pod = podOf(
    { serviceAccountToken: { path: "token" } },
    { serviceAccountToken: { path: "same", expirationSeconds: 3_600 } },
    { secret: { name: "login" } },
    { serviceAccountToken: { path: "vault", audience: "vault" } },
  );
  expect([...tokenReferencesOf(pod)].map(([key, { audience }]) => [key, audience])).toEqual([
    ['token shop/robot for web u1 3600 s ""', ""],
    ['token shop/robot for web u1 3600 s "vault"', "vault"],
  ]);
});

test("the key of a token depends on every field", () => {
  const reference: TokenReference = tokenReferenceOf(podOf(), { path: "token" });
  const changes: readonly Partial<TokenReference>[] = [
    {},
    { namespace: "other" },
    { serviceAccount: "other" },
    { podName: "other" },
    { podUid: "other" },
    { audience: "other" },
    { expirationSeconds: 601 },
  ];
  expect(new Set(changes.map((change) => tokenKey({ ...reference, ...change }))).size).toBe(changes.length);
});
