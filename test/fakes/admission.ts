import { admittingNode } from "../../agent/decide/admission/admission-node.ts";
import type { AdmissionParts } from "../../agent/desired/admission-queue.ts";
import { nodeSettings, observedMachine } from "./observed-node.ts";

/** A node that is known, on which nothing runs, with room for 110 pods. */
export const roomForAll: AdmissionParts = {
  node: () => admittingNode(undefined, observedMachine, nodeSettings),
  askForNode: async () => true,
  isBegun: () => false,
  canLeaveOutGroups: () => true,
};
