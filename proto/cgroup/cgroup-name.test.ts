import { expect, test } from "bun:test";
import { podCgroupName, qosParents, uidOfPodCgroup } from "./cgroup-name.ts";

test("a Guaranteed pod is directly below kubepods, the others below their class", () => {
  const names = (["Guaranteed", "Burstable", "BestEffort"] as const).map((qosClass) =>
    podCgroupName("12-34", qosClass).join("/"),
  );
  expect(names).toEqual(["kubepods/pod12-34", "kubepods/burstable/pod12-34", "kubepods/besteffort/pod12-34"]);
});

test("the name of a pod's cgroup contains a uid as servers generate them; other cgroups contain none", () => {
  const api = "0a1b2c3d-0000-4000-8000-00000000abcd";
  const manifest = "0a1b2c3d000040008000" + "00000000abcd";
  expect([api, manifest].map((uid) => uidOfPodCgroup(`pod${uid}`))).toEqual([api, manifest]);
  const others = ["pod", "pods", "podman-1", "pod12-34", "podmy-uid", "burstable", "cri-containerd-12.scope", ""];
  expect(others.map(uidOfPodCgroup).filter((uid) => uid !== undefined)).toEqual([]);
  expect(Object.values(qosParents).flatMap((name) => uidOfPodCgroup(name.at(-1) ?? "") ?? [])).toEqual([]);
});
