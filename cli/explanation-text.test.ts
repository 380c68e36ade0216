import { expect, test } from "bun:test";
import type { ExplainedStep } from "../agent/serve/local/explain/pod-explanation.ts";
import { formatExplanation } from "./explanation-text.ts";

const pod = { namespace: "shop", name: "web", uid: "u", state: "Pending", ready: "0/1", source: "/m/web.yaml" };
const at = "2026-01-01T14:03:07.120000Z";
const lastAt = "2026-01-01T14:03:37.120000Z";
const now = Date.parse("2026-01-01T14:03:47.120Z");

const rows: readonly (readonly [sentence: string, step: Partial<ExplainedStep>, text: string])[] = [
  ["that succeeded at once", {}, ""],
  ["that failed", { failed: { reason: "ErrImagePull", times: 1 } }, ", FAILED: ErrImagePull"],
  ["that was repeated", { times: 3, lastAt }, " … 3 times, last 10s ago"],
  [
    "that failed each time",
    { times: 3, lastAt, failed: { reason: "ErrImagePull", times: 3 } },
    " … 3 times, last 10s ago, FAILED each time: ErrImagePull",
  ],
  [
    "whose last tries failed",
    { times: 5, lastAt, failed: { reason: "ErrImagePull", times: 2 } },
    " … 5 times, last 10s ago, FAILED the last 2 times: ErrImagePull",
  ],
  [
    "whose last try failed",
    { times: 5, lastAt, failed: { reason: "ErrImagePull", times: 1 } },
    " … 5 times, last 10s ago, FAILED the last time: ErrImagePull",
  ],
];
for (const [sentence, step, text] of rows)
  test(`a step ${sentence}`, () => {
    const timeline = [{ at, what: "pull image web", ms: 7, ...step }];
    expect(formatExplanation({ ...pod, timeline }, now)).toBe(
      `shop/web: Pending, 0/1 ready, from /m/web.yaml\n\n  14:03:07.120  7 ms  pull image web${text}\n`,
    );
  });

test("a manifest that is refused has its cure, and the pod stays", () => {
  const correction = { cure: "correct the file", commands: ["vi /m/web.yaml"] };
  expect(formatExplanation({ ...pod, refused: "line 8: a tab", correction, timeline: [] }, now)).toBe(
    [
      "shop/web: Pending, 0/1 ready, from /m/web.yaml",
      "",
      "the agent refuses this manifest: line 8: a tab",
      "cure  correct the file",
      "run   vi /m/web.yaml",
      "",
    ].join("\n"),
  );
});
