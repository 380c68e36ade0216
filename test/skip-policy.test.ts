import { expect, test } from "bun:test";
import { applySkipPolicy } from "./skip-policy.ts";
import type { Outcome } from "./suite.ts";

const skipping: Outcome = { name: "e2e", durationMs: 0, passed: 1, failed: [], skipped: ["e2e > a pod"], log: "/log" };

test.each<[what: string, env: Readonly<Record<string, string>>, needsUpstream: boolean, isFailure: boolean]>([
  ["outside CI", {}, false, false],
  ["outside CI, of a suite that needs the upstream programs", {}, true, false],
  ["in CI", { CI: "true" }, false, true],
  ["in CI, of a suite that needs the upstream programs", { CI: "true" }, true, true],
  ["where every test must run", { BERTH_REQUIRE_ALL: "1" }, true, true],
  ["in CI without upstream, of a suite that needs it", { CI: "true", BERTH_WITHOUT_UPSTREAM: "1" }, true, false],
  ["in CI without upstream, of another suite", { CI: "true", BERTH_WITHOUT_UPSTREAM: "1" }, false, true],
])("a skip %s, with %p", (_what, env, needsUpstream, isFailure) => {
  const failed = isFailure ? ["e2e > a pod (skipped, but every test must run here)"] : [];
  const skipped = isFailure ? [] : ["e2e > a pod"];
  expect(applySkipPolicy(skipping, needsUpstream, env)).toEqual({ ...skipping, failed, skipped });
});
