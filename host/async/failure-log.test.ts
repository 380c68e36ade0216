import { expect, test } from "bun:test";
import { FakeLog } from "../../test/fakes/log.ts";
import { createFailureLog } from "./failure-log.ts";

test("each reason is a warning once, then a debug line, and a warning again after a success", () => {
  const log = new FakeLog();
  const failureLog = createFailureLog(log, "cannot save", String);
  for (const error of ["full", "full", "read-only"]) failureLog.report(error, { file: "a" });
  failureLog.clear();
  failureLog.report("full");
  expect(log.lines.map(({ level, fields }) => [level, fields])).toEqual([
    ["warn", { file: "a", err: "full" }],
    ["debug", { file: "a", err: "full" }],
    ["warn", { file: "a", err: "read-only" }],
    ["warn", { err: "full" }],
  ]);
});

test("a failure without a reason is a debug line", () => {
  const log = new FakeLog();
  createFailureLog(log, "cannot save", () => undefined).report(new Error("away"));
  expect(log.lines.map(({ level }) => level)).toEqual(["debug"]);
});
