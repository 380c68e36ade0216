import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { refuseLinksToLog, removeInstanceLogs } from "./container-logs.ts";

const pod = "shop_web_u-1";
const rotated = ["1.log.20260101-000000", "1.log.20260101-000000.gz", "1.log.20260101-000000.tmp"];

/** A disk with such files in the folder of container `a`, beside those of its neighbour `b`. */
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
  ["the log of an instance goes, with what rotation made of it", ["1.log", ...rotated, "2.log"], 1, ["2.log"]],
  ["the newest log stays, and what is older goes", ["0.log", "1.log", ...rotated], 1, ["1.log", ...rotated]],
  ["what nobody came back for goes too", ["0.log", ...rotated, "2.log", "3.log"], 2, ["3.log"]],
  ["what is newer stays", ["0.log", "1.log", "2.log", "3.log"], 1, ["2.log", "3.log"]],
  [
    "the log of an older instance that is still there stays",
    ["0.log", "1.log", "2.log"],
    1,
    ["0.log", "2.log"],
    [0, 2],
  ],
  ["the only log stays", ["0.log"], 0, ["0.log"]],
  ["a log is newest by its number", ["9.log", "10.log"], 9, ["10.log"]],
  [
    "what is no log of that instance stays",
    ["1.log", "11.log", "1.login", "a1.log", "12.log"],
    1,
    ["1.login", "11.log", "12.log", "a1.log"],
  ],
  [
    "a number that no attempt can have makes no log an older one, and stays",
    ["2.log", "20261122000000.log"],
    2,
    ["2.log", "20261122000000.log"],
  ],
  ["what is not there is removed already", ["2.log"], 1, ["2.log"]],
];
for (const [sentence, files, attempt, left, others = []] of rows)
  test(sentence, async () => {
    const disk = await diskOf(files);
    await removeInstanceLogs(disk.logs, pod, { name: "a", attempt, others });
    expect(disk.left()).toEqual([...left]);
    expect(await disk.logs.stat(`${pod}/b/1.log`)).toBeDefined();
  });

test("a container whose name leads elsewhere, or that has no folder, has no logs", async () => {
  const { disk, logs } = await diskOf(["0.log", "1.log"]);
  const before = disk.paths();
  for (const name of ["../b", ".", "", "c", `../${pod}/a`])
    await removeInstanceLogs(logs, pod, { name, attempt: 1, others: [] });
  await removeInstanceLogs(logs, "shop_other_u-2", { name: "a", attempt: 1, others: [] });
  expect(disk.paths()).toEqual(before);
});

test("of a pod whose folder of logs is a link nothing is removed where it leads", async () => {
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
  test(`a link in the place of ${what} is refused, since the runtime would write through it`, async () => {
    const { logs } = await diskOf(["1.log"]);
    await refuseLinksToLog(logs, ofPod, "a", 2);
    await logs.remove(path);
    await logs.link(path, "/etc");
    const failure = await refuseLinksToLog(logs, ofPod, "a", 2).catch((error: unknown) => error);
    expect(failure).toMatchObject({
      reason: "CreateContainerError",
      message: `the log of container a cannot be written: /logs/${path} is a symlink; remove it`,
    });
  });
