import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { rejectLogSymlinks, removeInstanceLogs } from "./container-logs.ts";

const pod = "shop_web_u-1";
const rotated = ["1.log.20260101-000000", "1.log.20260101-000000.gz", "1.log.20260101-000000.tmp"];

/** A disk with these files in the log directory of container `a`, and one log of container `b`. */
async function diskOf(files: readonly string[]) {
  const disk = new FakeDisk(() => 0);
  const logs = disk.at("/logs");
  for (const container of ["a", "b"]) await logs.makeFolder(`${pod}/${container}`, 0o755);
  for (const file of files) await logs.write(`${pod}/a/${file}`, "", 0o640);
  await logs.write(`${pod}/b/1.log`, "", 0o640);
  const left = () =>
    disk
      .paths()
      .filter((path) => path.startsWith(`/logs/${pod}/a/`))
      .map((path) => path.slice(`/logs/${pod}/a/`.length));
  return { disk, logs, left };
}

const rows: readonly [
  sentence: string,
  files: readonly string[],
  attempt: number,
  left: readonly string[],
  others?: readonly number[],
][] = [
  ["the log of an instance is removed with its rotated files", ["1.log", ...rotated, "2.log"], 1, ["2.log"]],
  ["the newest log stays and older logs are removed", ["0.log", "1.log", ...rotated], 1, ["1.log", ...rotated]],
  ["leftover logs of older instances are removed too", ["0.log", ...rotated, "2.log", "3.log"], 2, ["3.log"]],
  ["what is newer stays", ["0.log", "1.log", "2.log", "3.log"], 1, ["2.log", "3.log"]],
  [
    "the log of an older instance that the runtime still has stays",
    ["0.log", "1.log", "2.log"],
    1,
    ["0.log", "2.log"],
    [0, 2],
  ],
  ["the only log stays", ["0.log"], 0, ["0.log"]],
  ["the newest log is the one with the highest number", ["9.log", "10.log"], 9, ["10.log"]],
  [
    "files that are not logs of the instance stay",
    ["1.log", "11.log", "1.login", "a1.log", "12.log"],
    1,
    ["1.login", "11.log", "12.log", "a1.log"],
  ],
  [
    "a file with an impossible attempt number stays and does not count as the newest log",
    ["2.log", "20261122000000.log"],
    2,
    ["2.log", "20261122000000.log"],
  ],
  ["removing an absent log succeeds", ["2.log"], 1, ["2.log"]],
];
for (const [sentence, files, attempt, left, others = []] of rows)
  test(sentence, async () => {
    const disk = await diskOf(files);
    await removeInstanceLogs(disk.logs, pod, { name: "a", attempt, others });
    expect(disk.left()).toEqual([...left]);
    expect(await disk.logs.stat(`${pod}/b/1.log`)).toBeDefined();
  });

test("nothing is removed for a container name that leads outside or has no directory", async () => {
  const { disk, logs } = await diskOf(["0.log", "1.log"]);
  const before = disk.paths();
  for (const name of ["../b", ".", "", "c", `../${pod}/a`])
    await removeInstanceLogs(logs, pod, { name, attempt: 1, others: [] });
  await removeInstanceLogs(logs, "shop_other_u-2", { name: "a", attempt: 1, others: [] });
  expect(disk.paths()).toEqual(before);
});

test("nothing is removed through a pod log directory that is a symlink", async () => {
  const { disk, logs } = await diskOf(["0.log", "1.log"]);
  await logs.link("shop_other_u-2", pod);
  await removeInstanceLogs(logs, "shop_other_u-2", { name: "a", attempt: 1, others: [] });
  expect(disk.paths()).toContain(`/logs/${pod}/a/0.log`);
});

const ofPod: Pod = { metadata: { namespace: "shop", name: "web", uid: "u-1" }, spec: { containers: [] } };
const ways: readonly [what: string, path: string][] = [
  ["the pod's folder", pod],
  ["the container's folder", `${pod}/a`],
  ["the log itself", `${pod}/a/2.log`],
];
for (const [what, path] of ways)
  test(`a symlink in place of ${what} is refused, because the runtime would write through it`, async () => {
    const { logs } = await diskOf(["1.log"]);
    await rejectLogSymlinks(logs, ofPod, "a", 2);
    await logs.remove(path);
    await logs.link(path, "/etc");
    const failure = await rejectLogSymlinks(logs, ofPod, "a", 2).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      reason: "CreateContainerError",
      message: `the log of container a cannot be written: /logs/${path} is a symlink; remove it`,
    });
  });
