import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ifAbsent } from "../bed/if-absent.ts";
import { readReadme } from "../readme-manifest.ts";
import { figuresIn, readmeFiguresIn, tableOf } from "./benchmarks-document.ts";
import { type RunToPublish, refusalOf, refusalOfForeignCpu, refusalOfMachine, samplesText } from "./publication.ts";
import { readmeFigures } from "./readme-figures.ts";
import type { Result } from "./results.ts";

const run: RunToPublish = {
  version: "berth 0.1.0 (75a5052bdfd6)",
  head: "75a5052bdfd6b1946aa7a9a2d5d2b7d3f5e2d9c8",
  changes: "",
  isQuick: false,
};

test("figures of a committed tree and its own program may be published", () => {
  expect(refusalOf(run)).toBeUndefined();
});

test.each([
  { change: { isQuick: true }, why: "--write needs enough pairs: leave out --effort quick" },
  { change: { changes: " M agent/main.ts\n?? notes\n" }, why: "  M agent/main.ts\n  ?? notes" },
  { change: { version: "berth 0.1.0 (75a5052bdfd6+)" }, why: "but found berth 0.1.0 (75a5052bdfd6+): npm run build" },
  { change: { version: "berth 0.1.0 (0123456789ab)" }, why: "needs the program of the commit 75a5052bdfd6" },
  { change: { version: "berth 0.1.0 (unknown)" }, why: "needs the program of the commit 75a5052bdfd6" },
])("--write refuses a run with $change", ({ change, why }) => {
  expect(refusalOf({ ...run, ...change })).toContain(why);
});

test("--write refuses a machine that is not quiet", () => {
  expect(refusalOfMachine(0.05)).toBeUndefined();
  expect(refusalOfMachine(0.31)).toBe(
    "--write needs a quiet machine: its CPUs are busy for 31.0 % of the time, and may be for 5.0 %",
  );
});

test("--write refuses a part during which other processes used the machine, and names them in one line", () => {
  const quiet = { processes: 0.02, steal: 0.01, busiestMinute: 0.09, most: [{ name: "sshd", share: 0.02 }] };
  expect(refusalOfForeignCpu("network", quiet)).toBeUndefined();
  const most = [
    { name: "cc1plus", share: 0.3 },
    { name: "ld", share: 0.01 },
  ];
  expect(refusalOfForeignCpu("network", { processes: 0.31, steal: 0.004, busiestMinute: 0.9, most })).toBe(
    "the part network is not written: meanwhile other processes used 31.0 % of the CPUs (cc1plus 30.0 %, ld 1.0 %) and other machines 0.4 % (steal), in the busiest minute 90.0 % together; they may use 3.0 %, and 10.0 % in a minute",
  );
});

test("--write refuses a part whose watch of other processes has ended", () => {
  expect(refusalOfForeignCpu("network", undefined)).toBe(
    "the part network is not written: the watch of other processes has ended, so what they used meanwhile is unknown",
  );
});

test("samples are short, and one line for each list of numbers", () => {
  expect(samplesText({ a: [1.23456, 2, -3], b: [{ c: 1 }] })).toBe(
    '{\n "a": [1.235, 2, -3],\n "b": [\n  {\n   "c": 1\n  }\n ]\n}\n',
  );
});

const documents = join(import.meta.dirname, "..", "..", "docs");
/** What stands instead of the table of a part that has no samples yet: no figure. */
const withoutSamples = "Not measured yet.";

test.each(["floor", "kubelet", "own-share", "probes", "starts", "volumes", "api", "network"] as const)(
  "the published table %s is that of the committed samples, or says that it has none",
  async (part) => {
    const published = figuresIn(await readFile(join(documents, "benchmarks.md"), "utf8"), part);
    const samples = await readFile(join(documents, "benchmarks", `${part}.json`), "utf8").catch(ifAbsent(undefined));
    if (samples === undefined) return expect(published).toBe(withoutSamples);
    const result = JSON.parse(samples) as Result;
    expect(published).toBe(tableOf(result));
  },
);

test("every cell of the README's table, and its conditions, are those of the committed samples", async () => {
  const result = JSON.parse(await readFile(join(documents, "benchmarks", "kubelet.json"), "utf8")) as Result;
  if (result.part !== "kubelet") throw new Error(`kubelet.json has the samples of the part ${result.part}`);
  expect(readmeFiguresIn(await readReadme())).toBe(readmeFigures(result));
});
