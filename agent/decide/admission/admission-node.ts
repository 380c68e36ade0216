import type { Node, Taint } from "../../../proto/kubernetes/gen/types.ts";
import { parseResourceList, type ResourceAmounts, toAmounts } from "../../../proto/kubernetes/resource-list.ts";
import { builtInLabels } from "../node/node-labels.ts";
import { nodeResources, type ResourceSettings } from "../node/node-resources.ts";
import type { NodeSettings } from "../node/node-settings.ts";
import type { ObservedMachine } from "../node/observed-node.ts";
import type { NodeTraits } from "./node-selection.ts";

/** The facts of the node that admission checks a pod against. */
export interface AdmissionNode extends NodeTraits {
  /** The resources that pods may use. */
  readonly allocatable: ResourceAmounts;
  /** False until the API server has returned the Node: until then the labels are those of a registration. */
  readonly isKnown: boolean;
  /** Whether AppArmor profiles can be enforced. */
  readonly hasAppArmor: boolean;
  readonly declaredFeatures: readonly string[];
}

/** The configuration that it is made from. */
export type AdmissionNodeSettings = ResourceSettings & Pick<NodeSettings, "nodeName" | "labels" | "declaredFeatures">;

/**
 * The node for admission. `reported` is its API object; undefined when there is no API server or no Node; `unknown`
 * until the API server has answered. Allocatable is computed from this machine, since an earlier agent may have written
 * the object.
 */
export function toAdmissionNode(
  reported: Node | undefined | "unknown",
  machine: ObservedMachine,
  settings: AdmissionNodeSettings,
): AdmissionNode {
  const { nodeName, declaredFeatures } = settings;
  const node = reported === "unknown" ? undefined : reported;
  const { allocatable } = nodeResources(machine, node?.status ?? {}, settings);
  const labels = node?.metadata.labels ?? { ...builtInLabels(machine, nodeName), ...settings.labels };
  const taints: readonly Taint[] = node?.spec?.taints ?? [];
  const { hasAppArmor } = machine;
  const isKnown = reported !== "unknown";
  return {
    nodeName,
    labels,
    taints,
    allocatable: toAmounts(parseResourceList(allocatable)),
    isKnown,
    hasAppArmor,
    declaredFeatures,
  };
}
