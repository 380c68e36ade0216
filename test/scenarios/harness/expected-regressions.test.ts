import { expect, test } from "bun:test";
import { type ExpectedRegression, regressionProblems } from "./expected-regressions.ts";

const unready = 'web: a: readiness regressed: {"ready":true} → {"ready":false}';
const address = 'web: address regressed: {"podIP":"192.0.2.1"} → {"podIP":"192.0.2.2"}';
const expectUnready: ExpectedRegression = { pod: "web", label: "a", rule: "readiness", why: "The probe fails." };
const expectAddress: ExpectedRegression = { pod: "web", rule: "address", why: "The pod has a new sandbox." };

test("a regression that no scenario names is a problem", () => {
  expect(regressionProblems([unready, address], [])).toEqual([unready, address]);
  expect(regressionProblems([unready, address], [expectUnready])).toEqual([address]);
});

test("a regression may be named, and may then happen several times", () => {
  expect(regressionProblems([unready, address, unready], [expectUnready, expectAddress])).toEqual([]);
});

test("a named regression of another pod, another container or another rule is no excuse, and is stale itself", () => {
  for (const other of [{ pod: "db" }, { label: "b" }, { rule: "having started" }]) {
    const problems = regressionProblems([unready], [{ ...expectUnready, ...other }]);
    expect(problems).toEqual([
      unready,
      expect.stringMatching(/^\w+: \w+: [\w ]+ is expected to regress, and did not$/),
    ]);
  }
});

test("a named regression that the run does not show is stale", () => {
  expect(regressionProblems([unready], [expectUnready, expectAddress])).toEqual([
    "web: address is expected to regress, and did not",
  ]);
});
