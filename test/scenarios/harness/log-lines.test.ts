import { expect, test } from "bun:test";
import { INEFFECTIVE_ACTION } from "../../../agent/loop/sync-pod.ts";
import { createLogLines } from "./log-lines.ts";

const ineffective = `web: failed to stop container a within 30s: ${INEFFECTIVE_ACTION}`;

test.each<[text: string, expected: boolean, lines: readonly string[]]>([
  ["no action", false, []],
  ["a stop without an effect", true, ["web: stop container a within 30s", ineffective]],
  ["the same and another container's stop", true, [ineffective, "web: stop container b within 30s"]],
  ["another failure", false, ["web: failed to stop container a within 30s: the runtime is down"]],
])("after %s an ineffective action is recent: %p", (_, expected, lines) => {
  let nowMs = 1900;
  const log = createLogLines(() => nowMs);
  for (const line of lines) log.append(line);
  nowMs += 4999;
  expect(log.hasRecentIneffectiveAction()).toBe(expected);
  nowMs += 1;
  expect(log.hasRecentIneffectiveAction()).toBe(false);
});
