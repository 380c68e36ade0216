import { expect, test } from "bun:test";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { onAbort } from "../async/abort.ts";
import { type Exec, ExecError } from "../exec.ts";
import { createNetworkFiles, FILE_CALL_TIMEOUT_MS } from "./network-files.ts";

/* The contract of `NetworkFiles` is in test/contract/network-files.ts; this file tests how long its programs may take. */

/** A bed whose program prints as the test lets it, and ends as it says, or when it is killed. */
function createBed() {
  const clock = new FakeClock();
  const lines: string[] = [];
  const end = Promise.withResolvers<void>();
  let print: (text: string) => void = () => {};
  const exec: Exec = {
    async run(argv, { signal, onStdout = () => {} }) {
      lines.push(argv.join(" "));
      print = onStdout;
      onAbort(signal, () => end.reject(new ExecError(argv, undefined, "", `${argv[0]} was cancelled`)));
      await end.promise;
      return { stdout: "", stderr: "" };
    },
  };
  const files = createNetworkFiles({ exec, path: "/bin", clock, berth: ["/berth"] });
  return { clock, lines, files, print: (text: string) => print(text), end };
}

const noSignal = new AbortController().signal;
const change = { group: 2000, addedFileMode: 0o660, addedFolderMode: 0o2770, signal: noSignal };

test("a call that is not answered within a minute is killed, and the error says so", async () => {
  const { clock, files, lines } = createBed();
  const outcome = files.stat("/mnt/nas", noSignal).catch((error: unknown) => error);
  await clock.advance(FILE_CALL_TIMEOUT_MS);
  expect(await outcome).toMatchObject({
    name: "FilesError",
    code: "ETIMEDOUT",
    message: "/mnt/nas does not answer: stat did not end within 60 s",
  });
  expect(lines).toEqual(['/berth file-call ["stat","/mnt/nas"]']);
  expect(clock.pendingTimers).toBe(0);
});

test("a call that is aborted is killed, and rejects with the reason", async () => {
  const { clock, files } = createBed();
  const abort = new AbortController();
  const outcome = files.stat("/mnt/nas", abort.signal);
  abort.abort(new Error("the pod is deleted"));
  await expect(outcome).rejects.toThrow("the pod is deleted");
  expect(clock.pendingTimers).toBe(0);
});

test("a change of the group lasts as long as it makes progress, which is reported", async () => {
  const { clock, files, print, end } = createBed();
  const counts: number[] = [];
  const outcome = files.changeGroup("/v", { ...change, onProgress: (count) => void counts.push(count) });
  for (let minute = 1; minute <= 3; minute++) {
    await clock.advance(FILE_CALL_TIMEOUT_MS - 1);
    print(`{"progress":${minute}000}\n`);
  }
  const failure = { code: "EPERM", path: "/v/x", message: "/v/x cannot be changed" };
  const text = JSON.stringify({ result: { count: 4000, failure } });
  print(text.slice(0, 10));
  print(`${text.slice(10)}\n`);
  end.resolve();
  expect(await outcome).toMatchObject({ count: 4000, failure: { name: "FilesError", ...failure } });
  expect(counts).toEqual([1000, 2000, 3000]);
});

test("a change of the group without progress for a minute ends", async () => {
  const { clock, files, print } = createBed();
  const outcome = files.changeGroup("/v", change).catch((error: unknown) => error);
  await clock.advance(FILE_CALL_TIMEOUT_MS - 1);
  print('{"progress":1}\n');
  await clock.advance(FILE_CALL_TIMEOUT_MS);
  expect(await outcome).toMatchObject({ code: "ETIMEDOUT" });
});

const ends: readonly [sentence: string, error: ExecError | undefined, message: string][] = [
  ["fails", new ExecError(["/berth"], 1, "a bug\n", "exited with code 1"), "/p: stat: exit status 1: a bug"],
  ["prints nothing", undefined, "/p: stat has ended without an answer"],
];
for (const [sentence, error, message] of ends)
  test(`a program that ${sentence} is an error`, async () => {
    const { files, end } = createBed();
    const outcome = files.stat("/p", noSignal).catch((failure: unknown) => failure);
    await settlePromises();
    if (error === undefined) end.resolve();
    else end.reject(error);
    expect(await outcome).toMatchObject({ name: "FilesError", code: "EIO", message });
  });
