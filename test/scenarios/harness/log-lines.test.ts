import { expect, test } from "bun:test";
import { createLogLines } from "./log-lines.ts";

const ineffective = "web: failed to stop container a within 30s: the runtime reported success, but nothing has changed";

test.each<[text: string, expected: boolean, lines: readonly string[]]>([
  ["no action", false, []],
  ["a stop without an effect", true, ["web: stop container a within 30s", ineffective]],
  ["the same, a report and another pod's action", true, [ineffective, "report web Running", "db: start container b"]],
  ["its retry", false, [ineffective, "web: stop container a within 29s"]],
  ["another failure", false, ["web: failed to stop container a within 30s: the runtime is down"]],
])("after %s a retry is pending: %p", (_, expected, lines) => {
  let nowMs = 1900;
  const log = createLogLines(() => nowMs);
  for (const line of lines) log.append(line);
  expect(log.hasPendingRetry()).toBe(expected);
  nowMs = 6000;
  expect(log.hasPendingRetry()).toBe(false);
});
