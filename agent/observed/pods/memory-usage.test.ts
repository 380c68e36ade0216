import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import { ContainerStats } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { allocationOf } from "../../decide/resize/allocation.ts";
import { withMemoryUsage } from "./memory-usage.ts";

const uid = "u" as PodUid;
const podWith = (memory: string): Pod => ({
  metadata: { uid, name: "web" },
  spec: { containers: ["a", "b"].map((name) => ({ name, resources: { limits: { memory } } })) },
});

/** Two containers that run with these limits. */
function running(memory: string): ObservedPod {
  const sandboxId = "s" as SandboxId;
  const identity = { sandboxId, attempt: 0, createdAt: 0, image: "", imageRef: "", hash: undefined, crashes: 0 };
  const amounts = containerAmounts({ limits: { memory } });
  return {
    ...emptyObservedPod(uid, "default", "web"),
    sandboxes: [{ id: sandboxId, attempt: 0, createdAt: 0, ready: true, ips: [], hostNetwork: false, crashes: 0 }],
    containers: ["a", "b"].map((name) => ({
      ...{ ...identity, id: `${name}0` as ContainerId, name, amounts },
      ...{ state: "running" as const, startedAt: 0 },
    })),
  };
}

function desired(memory: string, isStarted: boolean): DesiredPod {
  const pod = podWith(memory);
  const allocation = { ...allocationOf(pod), ...(isStarted && { started: { generation: 2, since: 0 } }) };
  return { uid, pod, source: { kind: "api" }, acceptedAt: 0, revision: 0, allocation };
}

function runtimeWith(answer: (id: ContainerId) => ContainerStats) {
  const asked: string[] = [];
  return {
    asked,
    containerStats: async (id: ContainerId) => {
      asked.push(id);
      return answer(id);
    },
  };
}
const using = (value: bigint) => () => ContainerStats.fromPartial({ memory: { usageBytes: { value } } });

test("the usage of the containers whose limit a resize lowers is read, and nothing else", async () => {
  const runtime = runtimeWith(using(7n));
  const { memoryUsage } = await withMemoryUsage(
    { runtime, podCgroups: undefined },
    running("64Mi"),
    desired("32Mi", true),
  );
  expect([...(memoryUsage ?? [])]).toEqual([
    ["a0" as ContainerId, 7],
    ["b0" as ContainerId, 7],
  ]);
  const others = [desired("32Mi", false), desired("64Mi", true), desired("128Mi", true), undefined];
  for (const other of others)
    expect(await withMemoryUsage({ runtime, podCgroups: undefined }, running("64Mi"), other)).toEqual(running("64Mi"));
  expect(runtime.asked).toEqual(["a0", "b0"]);
});

test("a container that the runtime cannot measure has no figure; a runtime that is away fails the observation", async () => {
  const failing = (code: CriError["code"]) =>
    runtimeWith((id) => {
      if (id === "a0") throw new CriError(code, "ContainerStats", "no stats");
      return ContainerStats.fromPartial({});
    });
  for (const code of ["NOT_FOUND", "UNKNOWN"] as const) {
    const observed = await withMemoryUsage(
      { runtime: failing(code), podCgroups: undefined },
      running("64Mi"),
      desired("32Mi", true),
    );
    expect([...(observed.memoryUsage?.values() ?? [])]).toEqual([undefined, undefined]);
  }
  const away = withMemoryUsage(
    { runtime: failing("UNAVAILABLE"), podCgroups: undefined },
    running("64Mi"),
    desired("32Mi", true),
  );
  await expect(away).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test("the memory of the pod's cgroup is read while a resize is in progress", async () => {
  const podCgroups = { memoryBytes: async () => 4096 };
  const withCgroup: ObservedPod = { ...running("64Mi"), cgroup: {} };
  const readers = { runtime: runtimeWith(using(7n)), podCgroups };
  expect(await withMemoryUsage(readers, withCgroup, desired("128Mi", true))).toMatchObject({ cgroupMemoryBytes: 4096 });
  expect(await withMemoryUsage(readers, withCgroup, desired("128Mi", false))).toEqual(withCgroup);
});
