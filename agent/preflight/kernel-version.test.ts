import { expect, test } from "bun:test";
import { oldKernelWarnings } from "./kernel-version.ts";

const warnings = (kernelVersion: string, policy?: "None" | "TieredReservation", hasCgroupV2 = true) =>
  oldKernelWarnings({ kernelVersion, hasCgroupV2 }, { memoryReservationPolicy: policy }).map(
    (text) => /no cpu\.stat|memory\.high/.exec(text)?.[0],
  );

test("kernels before 5.8 have no cpu.stat of the root, and MemoryQoS needs 5.9", () => {
  expect(warnings("5.7.19-generic")).toEqual(["no cpu.stat"]);
  expect(warnings("5.8.0")).toEqual([]);
  expect(warnings("5.8.18", "None")).toEqual(["memory.high"]);
  expect(warnings("4.19.0-27-amd64", "TieredReservation")).toEqual(["no cpu.stat", "memory.high"]);
  for (const kernelVersion of ["5.9.0", "5.10.0-32-amd64", "6.1.0"])
    expect(warnings(kernelVersion, "TieredReservation")).toEqual([]);
  expect(warnings("4.19.0", "None", false)).toEqual([]);
});
