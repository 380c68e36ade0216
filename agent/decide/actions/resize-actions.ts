import type { SandboxId } from "../../../proto/ids.ts";
import type { PodMemory } from "../pod/memory.ts";
import { describeStep, type ResizeStep } from "../resize/resize-steps.ts";
import type { ActionRecord, ActionRecords } from "./action-record.ts";

/** How a resize changes what runs, without a restart. A resize that restarts a container stops it. */
export type ResizeAction = UpdateContainerResources | UpdatePodSandboxResources;

type UpdateContainerResources = Extract<ResizeStep, { kind: "updateContainerResources" }>;

type UpdatePodSandboxResources = Extract<ResizeStep, { kind: "updatePodSandboxResources" }> & {
  readonly sandboxId: SandboxId;
};

const RESIZE_ERROR = "ResizePodInPlaceError";

const updateContainerResources: ActionRecord<UpdateContainerResources> = {
  describe: describeStep,
  failureKey: ({ id }) => ({ of: "containerResources", id }),
  actionClass: "update",
  failure: () => ({ reason: RESIZE_ERROR, runtimeText: "rpc error" }),
  memoryWhenSucceeded: withStepTaken,
};

const updatePodSandboxResources: ActionRecord<UpdatePodSandboxResources> = {
  describe: describeStep,
  failureKey: ({ sandboxId: id }) => ({ of: "sandboxResources", id }),
  actionClass: "update",
  failure: () => ({
    reason: RESIZE_ERROR,
    runtimeText: "rpc error",
    messagePrefix: "failed to notify runtime for UpdatePodSandboxResources; resize rejected: ",
  }),
  memoryWhenSucceeded: withStepTaken,
};

export const resizeActions: ActionRecords<ResizeAction> = { updateContainerResources, updatePodSandboxResources };

function withStepTaken(memory: PodMemory, step: ResizeStep): PodMemory {
  return { ...memory, resizeSteps: [...memory.resizeSteps, step] };
}
