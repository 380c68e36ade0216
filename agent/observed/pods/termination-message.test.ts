import { beforeEach, expect, test } from "bun:test";
import { ContainerState, ContainerStatus } from "../../../proto/cri/gen/api.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { createLastWords, endOfLog } from "./termination-message.ts";

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

async function wordsOf(written: string | undefined, change: Partial<ContainerStatus> = {}, hostPath = file) {
  if (written !== undefined) await disk.at("/").write(file, written, 0o666);
  const mounts = [{ containerPath: "/dev/why", hostPath }];
  const status = ContainerStatus.fromPartial({ mounts, ...exited, ...change });
  return await createLastWords(disk.at("/root"), disk.at("/logs")).of(status);
}

const rows: readonly [
  sentence: string,
  written: string | undefined,
  change: Partial<ContainerStatus>,
  expected: string,
][] = [
  ["what the container has written is its message", "no licence", {}, "no licence"],
  ["what the runtime says stands before it", "no licence", { message: "oom" }, "oom: no licence"],
  ["what the runtime says alone is the message too", "", { message: "oom" }, "oom"],
  ["a container that has written nothing has said nothing", "", {}, ""],
  ["without the file nothing was said", undefined, {}, ""],
  ["of much only the last 4096 bytes are taken", `${"x".repeat(5000)}end`, {}, `${"x".repeat(4093)}end`],
  ["one that runs has not come to its last words", "hello", { state: ContainerState.CONTAINER_RUNNING }, ""],
  ["a container without such a file has no message", "no licence", { annotations: {} }, ""],
  ["without words the log speaks, where the policy says so", "", { annotations: fallingBack }, "first\nlast\n"],
  ["words are better than the log", "no licence", { annotations: fallingBack }, "no licence"],
  ["of a success the log says nothing", "", { annotations: fallingBack, exitCode: 0 }, ""],
  ["what could not be started has no log", "", { annotations: fallingBack, reason: "ContainerCannotRun" }, ""],
  ["a log that is gone says nothing", "", { annotations: fallingBack, logPath: "/logs/none/a/0.log" }, ""],
];
for (const [sentence, written, change, expected] of rows)
  test(sentence, async () => {
    expect(await wordsOf(written, change)).toBe(expected);
  });

test("a path in the container may be written without its slash", async () => {
  const annotations = { "io.kubernetes.container.terminationMessagePath": "dev/why" };
  expect(await wordsOf("no licence", { annotations })).toBe("no licence");
});

test("a file that is not in the agent's own folder is not read, whatever the runtime says", async () => {
  await disk.at("/").write("/secret", "s3cret", 0o600);
  for (const hostPath of ["/secret", "/root/../secret", "/roots"])
    expect(await wordsOf(undefined, {}, hostPath)).toBe("");
});

test("that it cannot be read is said in its place", async () => {
  disk.before = (verb, path) => {
    if (verb === "readEnd") throw new Error(`${path}: input/output error`);
  };
  expect(await wordsOf("x")).toBe(`Error on reading termination log: ${file}: input/output error`);
});

const planted: readonly [what: string, link: string, target: string][] = [
  ["of the log", logPath, "/logs/shop_other_u-2/b/0.log"],
  ["of the container's folder", "/logs/default_web_u/a", "/logs/shop_other_u-2/b"],
  ["of the pod's folder", "/logs/default_web_u", "/logs/shop_other_u-2"],
];
for (const [what, link, target] of planted)
  test(`a link in the place ${what} does not show what another one has said, and is told of`, async () => {
    for (const each of ["a", "b"]) {
      await disk.at("/").makeFolder(`/logs/shop_other_u-2/${each}`, 0o755);
      await disk.at("/").write(`/logs/shop_other_u-2/${each}/0.log`, "T stdout F s3cret\n", 0o640);
    }
    await disk.at("/").remove(link);
    await disk.at("/").link(link, target);
    expect(await wordsOf("", { annotations: fallingBack })).toBe(
      `Error on reading termination message from logs: ${logPath} leads over a symlink, which is not followed`,
    );
  });

const logs: readonly [sentence: string, log: string, expected: string][] = [
  ["lines of both streams, in their order", "t stdout F a\nt stderr F b\n", "a\nb\n"],
  ["a line in parts is one line", "t stdout P a\nt stdout F b\n", "ab\n"],
  ["tags may follow", "t stdout F:x a\n", "a\n"],
  ["what is no such line is left out", "torn\nt stdout F a\n", "a\n"],
  ["the last line may still be written", "t stdout F a\nt stdout F b", "a\n"],
  ["an empty log", "", ""],
  ["eighty lines at most", "t stdout F a\n".repeat(100), "a\n".repeat(80)],
  ["2048 bytes at most", `t stdout F ${"a".repeat(3000)}\n`, `${"a".repeat(2047)}\n`],
];
for (const [sentence, log, expected] of logs)
  test(`the end of a log: ${sentence}`, () => {
    expect(endOfLog(log)).toBe(expected);
  });
