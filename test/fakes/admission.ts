import { toAdmissionNode } from "../../agent/decide/admission/admission-node.ts";
import type { AdmissionDeps } from "../../agent/desired/admission-queue.ts";
import { nodeSettings, observedMachine } from "./observed-node.ts";

/** Admission on a node whose object is known, without running pods, with capacity for 110. */
export const unconstrainedAdmission: AdmissionDeps = {
  node: () => toAdmissionNode(undefined, observedMachine, nodeSettings),
  refreshNode: async () => true,
  isOnNode: () => false,
  supportsSupplementalGroupsPolicy: () => true,
  resize: () => ({ resizesPodLevel: false, hasLimitedSwap: false, staticManagers: [] }),
};
