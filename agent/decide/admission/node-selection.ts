import type {
  NodeSelectorRequirement,
  NodeSelectorTerm,
  Pod,
  Taint,
  Toleration,
} from "../../../proto/kubernetes/gen/types.ts";

/** What of a node pods choose by, and are kept away by. */
export interface NodeTraits {
  readonly nodeName: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
}

type Labels = Readonly<Record<string, string | undefined>>;

/** Whether the node is one that the pod's `nodeSelector` and its required node affinity ask for. */
export function isNodeWanted({ spec }: Pod, { nodeName, labels }: NodeTraits): boolean {
  const own = Object.entries(spec.nodeSelector ?? {});
  if (own.some(([key, value]) => labelOf(labels, key) !== value)) return false;
  const terms = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return terms === undefined || terms.some((term) => matches(term, labels, { "metadata.name": nodeName }));
}

/** All of a term's requirements have to be met; a term without any asks for no node, and so does one that cannot be read. */
function matches({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm, labels: Labels, fields: Labels) {
  if (matchExpressions.length + matchFields.length === 0) return false;
  return (
    matchExpressions.every((requirement) => isMet(requirement, labelOf(labels, requirement.key))) &&
    matchFields.every((requirement) => isFieldMet(requirement, labelOf(fields, requirement.key) ?? ""))
  );
}

function isMet({ operator, values = [] }: NodeSelectorRequirement, label: string | undefined): boolean {
  switch (operator) {
    case "In":
      return label !== undefined && values.includes(label);
    case "NotIn":
      return values.length > 0 && (label === undefined || !values.includes(label));
    case "Exists":
      return values.length === 0 && label !== undefined;
    case "DoesNotExist":
      return values.length === 0 && label === undefined;
    case "Gt":
    case "Lt": {
      const [is, limit] = [integerOf(label), values.length === 1 ? integerOf(values[0]) : undefined];
      if (is === undefined || limit === undefined) return false;
      return operator === "Gt" ? is > limit : is < limit;
    }
  }
}

/** Fields are compared with one value. */
function isFieldMet({ operator, values = [] }: NodeSelectorRequirement, field: string): boolean {
  if (values.length !== 1) return false;
  return operator === "In" ? field === values[0] : operator === "NotIn" && field !== values[0];
}

function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

function integerOf(text: string | undefined): bigint | undefined {
  return text !== undefined && /^[+-]?\d{1,19}$/.test(text) ? BigInt(text.replace("+", "")) : undefined;
}

/** Whether the pod bears every taint of the node that would drive it away. Taints of other effects are the scheduler's affair. */
export function toleratesNode({ spec }: Pod, { taints }: NodeTraits): boolean {
  return taints
    .filter(({ effect }) => effect === "NoExecute")
    .every((taint) => (spec.tolerations ?? []).some((toleration) => tolerates(toleration, taint)));
}

/** An empty effect or key is any. Comparisons (`Lt`, `Gt`) are an alpha feature that is off, and tolerate nothing. */
function tolerates({ effect, key, operator, value = "" }: Toleration, taint: Taint): boolean {
  if (effect && effect !== taint.effect) return false;
  if (key && key !== taint.key) return false;
  return operator === "Exists" || ((operator || "Equal") === "Equal" && value === (taint.value ?? ""));
}
