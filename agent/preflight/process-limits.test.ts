import { expect, test } from "bun:test";
import { FilesError } from "../../host/fs/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { applyProcessLimits } from "./process-limits.ts";

/** The calls and log lines of a start on a kernel that refuses with these errors. */
function applied(ofScore?: Error, ofFiles?: Error): readonly string[] {
  const log = new FakeLog();
  const calls: string[] = [];
  const call = (name: string, error: Error | undefined) => (value: number) => {
    calls.push(`${name} ${value}`);
    if (error !== undefined) throw error;
  };
  const limits = { setOomScoreAdj: call("score", ofScore), setMaxOpenFiles: call("files", ofFiles) };
  applyProcessLimits({ oomScoreAdj: -999, maxOpenFiles: 1_000_000 }, limits, log);
  return [...calls, ...log.takeLines()];
}

test("the agent gets the OOM score and the open files of its configuration", () => {
  expect(applied()).toEqual(["score -999", "files 1000000"]);
});

test("where the kernel refuses one, the agent warns, applies the other and starts", () => {
  const refused = new FilesError("EACCES", "/proc/self/oom_score_adj", "/proc/self/oom_score_adj cannot be written");
  expect(applied(refused)).toEqual([
    "score -999",
    "files 1000000",
    "warn: cannot apply oomScoreAdj; the agent keeps what it was started with",
  ]);
  expect(applied(refused, new FilesError("EPERM", "RLIMIT_NOFILE", "refused")).slice(2)).toEqual([
    "warn: cannot apply oomScoreAdj; the agent keeps what it was started with",
    "warn: cannot apply maxOpenFiles; the agent keeps what it was started with",
  ]);
});

test("any other error is a fault of the agent", () => {
  expect(() => applied(new TypeError("no such call"))).toThrow("no such call");
});
