import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { containerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import type { ContainerStatus, Pod, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { ObservedContainer, ObservedPod } from "../pod/observed.ts";
import { previousStatusOf } from "../status/previous-status.ts";
import { allocationOf } from "./allocation.ts";
import { adoptedAllocation, withActuated, withAdopted } from "./instances.ts";

const cpu = (amount: string): ResourceRequirements => ({ requests: { cpu: amount } });
const id = "a0" as ContainerId;
const reported = (resources: ResourceRequirements): ContainerStatus => ({
  ...{ name: "a", image: "", imageID: "", ready: true, restartCount: 0, containerID: `containerd://${id}` },
  ...(resources.requests && { allocatedResources: resources.requests }),
  resources,
});
const podOf = (resources: ResourceRequirements, status?: ContainerStatus): Pod => ({
  metadata: { name: "web" },
  spec: { containers: [{ name: "a", resources }] },
  ...(status && { status: { containerStatuses: [status] } }),
});
const instance: ObservedContainer = {
  ...{ id, name: "a", sandboxId: "s" as SandboxId, attempt: 0, createdAt: 0, image: "", imageRef: "", hash: undefined },
  ...{ crashes: 0, state: "running", startedAt: 0 },
};
const observedOf = (container: ObservedContainer): ObservedPod => ({
  ...emptyObservedPod("u" as PodUid, "default", "web"),
  containers: [container],
});

test("an instance runs with what it was created with, unless the record has an update of just this instance", () => {
  const created = { ...instance, amounts: containerAmounts(cpu("1")) };
  const updated = { ...allocationOf(podOf(cpu("2"))), actuated: { a: { id, amounts: containerAmounts(cpu("2")) } } };
  expect(withActuated(observedOf(created), updated).containers[0]?.amounts).toEqual(containerAmounts(cpu("2")));
  const next = { ...created, id: "a1" as ContainerId };
  expect(withActuated(observedOf(next), updated)).toEqual(observedOf(next));
});

test("an instance without amounts is recorded once, with what its agent has reported or with what is allocated", () => {
  const adopt = (pod: Pod, container: ObservedContainer = instance, allocation = allocationOf(pod)) =>
    withAdopted(pod, allocation, previousStatusOf(pod), observedOf(container));
  const amountsOf = (pod: Pod) => adopt(pod).actuated["a"]?.amounts;
  expect(amountsOf(podOf(cpu("2")))).toEqual(containerAmounts(cpu("2")));
  expect(amountsOf(podOf(cpu("2"), reported(cpu("1"))))).toEqual(containerAmounts(cpu("1")));
  const other = { ...reported(cpu("1")), containerID: "containerd://other" };
  expect(amountsOf(podOf(cpu("2"), other))).toEqual(containerAmounts(cpu("2")));
  const pod = podOf(cpu("2"));
  const adopted = adopt(pod);
  expect(adopt(pod, instance, adopted)).toBe(adopted);
  const own = { ...instance, amounts: containerAmounts(cpu("1")) };
  const ended = { ...instance, state: "exited", finishedAt: 0, exitCode: 0, reason: "", message: "" } as const;
  for (const container of [own, ended]) expect(adopt(pod, container).actuated).toEqual({});
});

test("a pod of another agent has what its spec requests, unless its status shows a resize that was not accepted", () => {
  const allocated = (pod: Pod) => adoptedAllocation(pod).allocated.containers["a"];
  expect(allocated(podOf(cpu("2")))).toEqual(cpu("2"));
  expect(allocated(podOf(cpu("0.1"), reported(cpu("100m"))))).toEqual(cpu("0.1"));
  expect(allocated(podOf(cpu("2"), reported(cpu("1"))))).toEqual(cpu("1"));
  const rounded = { ...reported(cpu("2m")), allocatedResources: { cpu: "1m" } };
  expect(allocated(podOf(cpu("1m"), rounded))).toEqual(cpu("1m"));
});
