import { expect, test } from "bun:test";
import { countStarted, findDuplicateAttempts } from "./create-attempts.ts";

const [sandbox, next, first, second] = ["a", "b", "c", "d"].map((digit) => digit.repeat(64));
const line = (text: string) => `time="2026-11-22T03:31:24.26Z" level=info msg="${text}"\n`;
const runs = (id: string) =>
  line(
    `RunPodSandbox for &PodSandboxMetadata{Name:web,Uid:uid-1,Namespace:default,Attempt:0,} returns sandbox id \\"${id}\\"`,
  );
const creates = (within: string, attempt: number, id: string) =>
  line(
    `CreateContainer within sandbox \\"${within}\\" for &ContainerMetadata{Name:main,Attempt:${attempt},} returns container id \\"${id}\\"`,
  );
const starts = (id: string) => line(`StartContainer for \\"${id}\\" returns successfully`);

const begin = runs(sandbox!) + creates(sandbox!, 0, first!) + starts(first!);

test.each([
  ["in another sandbox of its pod", runs(next!) + creates(next!, 0, second!)],
  ["in the same sandbox", creates(sandbox!, 0, second!) + starts(second!)],
])("an attempt that has run and is created again %s is found", (_, more) => {
  expect(findDuplicateAttempts(begin + more)).toEqual([
    expect.stringMatching(/^uid-1 main #0 was created as c{12} \(ran\), d/),
  ]);
});

test.each([
  ["the next attempt", begin + creates(sandbox!, 1, second!) + starts(second!)],
  [
    "an attempt that was created twice and never ran",
    runs(sandbox!) + creates(sandbox!, 0, first!) + creates(sandbox!, 0, second!),
  ],
])("%s is not reported as a duplicate", (_, log) => {
  expect(findDuplicateAttempts(log)).toEqual([]);
});

test("the containers of a pod that have run are counted, not those that were only created", () => {
  const log = begin + creates(sandbox!, 1, second!);
  expect(countStarted(log, "uid-1", "main")).toBe(1);
  expect(countStarted(log + starts(second!), "uid-1", "main")).toBe(2);
  expect(countStarted(log, "uid-1", "other")).toBe(0);
});
