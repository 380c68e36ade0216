import { expect, test } from "bun:test";
import { describeExecFailure } from "./exec-failure.ts";

const START =
  'Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "5387": OCI runtime exec failed: exec failed: unable to start container process: ';

test.each([
  [
    "nope",
    `${START}exec: "nope": executable file not found in $PATH: unknown`,
    127,
    "executable file not found in $PATH",
  ],
  ["/nope", `${START}exec: "/nope": stat /nope: no such file or directory: unknown`, 127, "no such file or directory"],
  ["/etc/passwd", `${START}exec: "/etc/passwd": permission denied: unknown`, 126, "permission denied"],
  ["/arm", `${START}exec /arm: exec format error: unknown`, 126, "exec format error"],
  ["x", "exec failed: executable file `x` not found: No such file or directory", 127, "executable file `x` not found"],
])("the program %s that cannot be executed", (program, message, exitCode, cause) => {
  const text = `cannot execute "${program}" in the container: ${cause}`;
  expect(describeExecFailure(message, program)).toEqual({ text, exitCode });
});

test("any other failure keeps its message", () => {
  const text = "the session has ended early: has the agent or the container runtime stopped?";
  expect(describeExecFailure(text, "sh")).toEqual({ text, exitCode: 1 });
});
