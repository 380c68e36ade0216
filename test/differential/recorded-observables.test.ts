import { expect, test } from "bun:test";
import type { CgroupRecording } from "./cgroups/cgroup-recording.ts";
import { joinRuns } from "./compare.ts";
import { linesOfCgroups, linesOfRows, showsObservable } from "./recorded-observables.ts";

const runs = (...all: readonly Readonly<Record<string, string>>[]) =>
  linesOfRows(joinRuns(all.map((rows) => new Map(Object.entries(rows)))));

test.each<[observable: string, isShown: boolean]>([
  ["state.exitCode = 13", true],
  ["exitCode = 1", false],
  ["exitCode", true],
  ["Code = 13", true],
  ["message = a\nb", true],
  ["message = b", false],
  ["without exitCode = 2", true],
  ["without exitCode", false],
])("a pod shows %j: %p", (observable, isShown) => {
  expect(showsObservable(runs({ "state.exitCode": "13", message: "a\nb" }), observable)).toBe(isShown);
});

test("a pod shows what all its runs show, with any of their values", () => {
  const lines = runs({ "event Normal BackOff": "×2", reason: "A" }, { "event Normal BackOff": "×3" });
  expect(showsObservable(lines, "event Normal BackOff")).toBe(true);
  expect(showsObservable(lines, "BackOff = ×2")).toBe(false);
  expect(showsObservable(lines, "reason = A")).toBe(false);
  expect(showsObservable([], "reason")).toBe(false);
});

test("a pod shows its own cgroups and status with each driver", () => {
  const recording = (weight: string): CgroupRecording => ({
    versions: { kubelet: "1", kernel: "1", containerd: "1", runc: "1" },
    batches: {
      one: {
        node: { capacity: {}, onlineCpus: "0", pids: 1, hugePageSizes: [] },
        pods: {
          besteffort: {
            ...{ hash: "h", qosClass: "BestEffort", spec: { containers: [] } },
            status: { containers: { main: { restartCount: 1 } }, resizes: {} },
          },
        },
        cgroups: {
          "kubepods/besteffort": { "cpu.weight": "1" },
          "kubepods/besteffort/besteffort": { "cpu.weight": "2", "pids.max": "5" },
          "kubepods/besteffort/besteffort/main": { "cpu.weight": weight },
          "kubepods/besteffort/other/main": { "cpu.weight": "9" },
        },
      },
    },
  });
  expect(linesOfCgroups([recording("3"), recording("4")], "besteffort")).toEqual([
    ["cgroup kubepods/besteffort/besteffort: cpu.weight = 2", "cgroup kubepods/besteffort/besteffort: cpu.weight = 2"],
    ["cgroup kubepods/besteffort/besteffort: pids.max = 5", "cgroup kubepods/besteffort/besteffort: pids.max = 5"],
    ["cgroup main: cpu.weight = 3", "cgroup main: cpu.weight = 4"],
    ["status main.restartCount = 1", "status main.restartCount = 1"],
  ]);
  expect(linesOfCgroups([recording("3")], "other")).toEqual([]);
});
