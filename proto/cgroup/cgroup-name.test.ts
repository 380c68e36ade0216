import { expect, test } from "bun:test";
import { podCgroupName, qosParents, uidOfPodCgroup } from "./cgroup-name.ts";

test("a Guaranteed pod is directly below kubepods, the others below their class", () => {
  const names = (["Guaranteed", "Burstable", "BestEffort"] as const).map((qosClass) =>
    podCgroupName("12-34", qosClass).join("/"),
  );
  expect(names).toEqual(["kubepods/pod12-34", "kubepods/burstable/pod12-34", "kubepods/besteffort/pod12-34"]);
});

test("the name of a pod's cgroup contains its uid; other cgroups of the node contain none", () => {
  const uids = ["pod12-34", "podpod", "pod", "burstable", "besteffort", "cri-containerd-12.scope", ""];
  expect(uids.map(uidOfPodCgroup)).toEqual(["12-34", "pod", undefined, undefined, undefined, undefined, undefined]);
  expect(Object.values(qosParents).map((name) => uidOfPodCgroup(name.at(-1) ?? ""))).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});
