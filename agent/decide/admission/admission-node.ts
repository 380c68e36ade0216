import type { Node, Taint } from "../../../proto/kubernetes/gen/types.ts";
import { type Amounts, amountsOf } from "../../../proto/kubernetes/pod-resources.ts";
import { ownLabels } from "../node/node-labels.ts";
import { nodeResources, type ResourceSettings } from "../node/node-resources.ts";
import type { ObservedMachine } from "../node/observed-node.ts";
import type { NodeTraits } from "./node-selection.ts";

/** The node as pods are held against it. */
export interface AdmittingNode extends NodeTraits {
  /** What its pods may have of it. */
  readonly allocatable: Amounts;
  /** False while the API server has not told of the node: then its labels are those that it would register with. */
  readonly isHeard: boolean;
  /** Whether profiles of AppArmor can be enforced. */
  readonly hasAppArmor: boolean;
  readonly declaredFeatures: readonly string[];
}

/** What of the configuration it is made of. */
export interface AdmittingSettings extends ResourceSettings {
  readonly nodeName: string;
  /** `--node-labels`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly declaredFeatures: readonly string[];
}

/**
 * The node from what the API server tells of it; undefined: it has none, or there is no API server. What pods may have of this machine
 * is this agent's to say, also where the API server still has what an earlier one has said.
 */
export function admittingNode(
  told: Node | undefined | "unknown",
  machine: ObservedMachine,
  settings: AdmittingSettings,
): AdmittingNode {
  const { nodeName, declaredFeatures } = settings;
  const node = told === "unknown" ? undefined : told;
  const { allocatable } = nodeResources(machine, node?.status ?? {}, settings);
  const labels = node?.metadata.labels ?? { ...ownLabels(machine, nodeName), ...settings.labels };
  const taints: readonly Taint[] = node?.spec?.taints ?? [];
  const { hasAppArmor } = machine;
  const isHeard = told !== "unknown";
  return { nodeName, labels, taints, allocatable: amountsOf(allocatable), isHeard, hasAppArmor, declaredFeatures };
}
