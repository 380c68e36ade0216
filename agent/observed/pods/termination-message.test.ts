import { beforeEach, expect, test } from "bun:test";
import { ContainerState, ContainerStatus } from "../../../proto/cri/gen/api.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { createTerminationMessages, tailOfLog } from "./termination-message.ts";

const file = "/root/pods/u/containers/a/0badcafe";
const logPath = "/logs/default_web_u/a/0.log";
const policy = "io.kubernetes.container.terminationMessagePolicy";
const exited: Partial<ContainerStatus> = {
  state: ContainerState.CONTAINER_EXITED,
  exitCode: 3,
  reason: "Error",
  annotations: { "io.kubernetes.container.terminationMessagePath": "/dev/why", [policy]: "File" },
  logPath,
};
const fallingBack = { ...exited.annotations, [policy]: "FallbackToLogsOnError" };

let disk: FakeDisk;
beforeEach(async () => {
  disk = new FakeDisk(() => 0);
  await disk.at("/").makeFolder("/root/pods/u/containers/a", 0o750);
  await disk.at("/").makeFolder("/logs/default_web_u/a", 0o755);
  await disk.at("/").write(logPath, "T stdout F first\nT stderr F last\n", 0o640);
});

async function messageOf(written: string | undefined, change: Partial<ContainerStatus> = {}, hostPath = file) {
  if (written !== undefined) await disk.at("/").write(file, written, 0o666);
  const mounts = [{ containerPath: "/dev/why", hostPath }];
  const status = ContainerStatus.fromPartial({ mounts, ...exited, ...change });
  return await createTerminationMessages(disk.at("/root"), disk.at("/logs")).read(status);
}

const rows: readonly [
  sentence: string,
  written: string | undefined,
  change: Partial<ContainerStatus>,
  expected: string,
][] = [
  ["the content of the file is the message", "no licence", {}, "no licence"],
  ["the runtime's message precedes the content of the file", "no licence", { message: "oom" }, "oom: no licence"],
  ["the runtime's message alone is the message", "", { message: "oom" }, "oom"],
  ["an empty file yields an empty message", "", {}, ""],
  ["a missing file yields an empty message", undefined, {}, ""],
  ["only the last 4096 bytes of the file are read", `${"x".repeat(5000)}end`, {}, `${"x".repeat(4093)}end`],
  ["a running container has no message", "hello", { state: ContainerState.CONTAINER_RUNNING }, ""],
  ["a container without a message path has no message", "no licence", { annotations: {} }, ""],
  ["with FallbackToLogsOnError an empty file falls back to the log", "", { annotations: fallingBack }, "first\nlast\n"],
  ["a message in the file wins over the log", "no licence", { annotations: fallingBack }, "no licence"],
  ["a successful container does not fall back to the log", "", { annotations: fallingBack, exitCode: 0 }, ""],
  [
    "a container that could not be started does not fall back to the log",
    "",
    { annotations: fallingBack, reason: "ContainerCannotRun" },
    "",
  ],
  ["a missing log yields an empty message", "", { annotations: fallingBack, logPath: "/logs/none/a/0.log" }, ""],
];
for (const [sentence, written, change, expected] of rows)
  test(sentence, async () => {
    expect(await messageOf(written, change)).toBe(expected);
  });

test("the message path may lack its leading slash", async () => {
  const annotations = { "io.kubernetes.container.terminationMessagePath": "dev/why" };
  expect(await messageOf("no licence", { annotations })).toBe("no licence");
});

test("a file outside of the agent's directories is not read, whatever the runtime reports", async () => {
  await disk.at("/").write("/secret", "s3cret", 0o600);
  for (const hostPath of ["/secret", "/root/../secret", "/roots"])
    expect(await messageOf(undefined, {}, hostPath)).toBe("");
});

test("a read error becomes the message", async () => {
  disk.before = (verb, path) => {
    if (verb === "readEnd") throw new Error(`${path}: input/output error`);
  };
  expect(await messageOf("x")).toBe(`Error on reading termination log: ${file}: input/output error`);
});

const planted: readonly [what: string, link: string, target: string][] = [
  ["of the log", logPath, "/logs/shop_other_u-2/b/0.log"],
  ["of the container's directory", "/logs/default_web_u/a", "/logs/shop_other_u-2/b"],
  ["of the pod's directory", "/logs/default_web_u", "/logs/shop_other_u-2"],
];
for (const [what, link, target] of planted)
  test(`a symlink in place ${what} does not expose another pod's log, and is reported`, async () => {
    for (const each of ["a", "b"]) {
      await disk.at("/").makeFolder(`/logs/shop_other_u-2/${each}`, 0o755);
      await disk.at("/").write(`/logs/shop_other_u-2/${each}/0.log`, "T stdout F s3cret\n", 0o640);
    }
    await disk.at("/").remove(link);
    await disk.at("/").link(link, target);
    expect(await messageOf("", { annotations: fallingBack })).toBe(
      `Error on reading termination message from logs: ${logPath} contains a symlink, which is not followed`,
    );
  });

const logs: readonly [sentence: string, log: string, expected: string][] = [
  ["lines of both streams keep their order", "t stdout F a\nt stderr F b\n", "a\nb\n"],
  ["partial lines are joined", "t stdout P a\nt stdout F b\n", "ab\n"],
  ["carriage returns and line separators stay", "t stderr F a\r\nt stdout F b\u2028c\n", "a\r\nb\u2028c\n"],
  ["further tags are ignored", "t stdout F:x a\n", "a\n"],
  ["a malformed line is left out", "torn\nt stdout F a\n", "a\n"],
  ["an unterminated last line is left out", "t stdout F a\nt stdout F b", "a\n"],
  ["an empty log yields an empty text", "", ""],
  ["at most eighty lines are read", "t stdout F a\n".repeat(100), "a\n".repeat(80)],
  ["at most 2048 bytes are read", `t stdout F ${"a".repeat(3000)}\n`, `${"a".repeat(2047)}\n`],
];
for (const [sentence, log, expected] of logs)
  test(`the end of a log: ${sentence}`, () => {
    expect(tailOfLog(log)).toBe(expected);
  });
