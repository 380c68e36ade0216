import { expect, test } from "bun:test";
import { type AttachmentFacts, type AttachmentState, stateOfAttachment, YOUNG_FOR_MS } from "./attachment-state.ts";

/** A pod's attachment that has outlived its sandbox. */
const leaked: AttachmentFacts = { sandbox: undefined, netns: "mounted", isOfPod: true, ageMs: YOUNG_FOR_MS };
const torn: AttachmentFacts = { sandbox: undefined, netns: "unknown", isOfPod: undefined, ageMs: undefined };

const rows: readonly (readonly [name: string, facts: AttachmentFacts, state: AttachmentState])[] = [
  ["the sandbox is ready", { ...leaked, sandbox: "ready" }, "in use"],
  [
    "the sandbox is ready, and its network namespace is out of sight",
    { ...leaked, sandbox: "ready", netns: "gone" },
    "in use",
  ],
  ["the sandbox has ended, and the runtime has to call DEL", { ...leaked, sandbox: "not ready" }, "in use"],
  ["the sandbox is from before a boot", { ...leaked, sandbox: "not ready", netns: "gone" }, "stale"],
  ["the runtime knows no sandbox", leaked, "stale"],
  ["neither a sandbox nor a network namespace", { ...leaked, netns: "gone" }, "stale"],
  ["no network namespace, however young", { ...leaked, netns: "gone", ageMs: 0 }, "stale"],
  ["no netns in the cache, and no sandbox", { ...leaked, netns: "unknown" }, "stale"],
  ["ADD ended just before the list", { ...leaked, ageMs: 1 }, "young"],
  ["ADD ended after the list", { ...leaked, ageMs: -60_000 }, "young"],
  ["young for the last millisecond", { ...leaked, ageMs: YOUNG_FOR_MS - 1 }, "young"],
  ["added by hand", { ...leaked, isOfPod: false }, "in use"],
  ["added by hand, and its network namespace is gone", { ...leaked, isOfPod: false, netns: "gone" }, "stale"],
  ["a torn file without a sandbox", torn, "stale"],
  ["a torn file of a sandbox that is ready", { ...torn, sandbox: "ready" }, "in use"],
  ["a torn file of a sandbox that has ended", { ...torn, sandbox: "not ready" }, "in use"],
];

test.each(rows)("%s", (_, facts, state) => {
  expect(stateOfAttachment(facts, YOUNG_FOR_MS)).toBe(state);
});
