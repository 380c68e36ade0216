import type {
  NodeSelectorRequirement,
  NodeSelectorTerm,
  Pod,
  Taint,
  Toleration,
} from "../../../proto/kubernetes/gen/types.ts";

/** The properties of a node by which pods select or avoid it. */
export interface NodeTraits {
  readonly nodeName: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: readonly Taint[];
}

type Labels = Readonly<Record<string, string | undefined>>;

/** Whether the node matches the pod's `nodeSelector` and its required node affinity. */
export function matchesNodeSelection({ spec }: Pod, { nodeName, labels }: NodeTraits): boolean {
  const selectorLabels = Object.entries(spec.nodeSelector ?? {});
  if (selectorLabels.some(([key, value]) => labelOf(labels, key) !== value)) return false;
  const terms = spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return terms === undefined || matchesNodeTerms(terms, { nodeName, labels });
}

/** Whether the node matches one of the terms. */
export function matchesNodeTerms(
  terms: readonly NodeSelectorTerm[],
  { nodeName, labels }: Pick<NodeTraits, "nodeName" | "labels">,
): boolean {
  return terms.some((term) => matches(term, labels, { "metadata.name": nodeName }));
}

/** All requirements of a term have to match. An empty term, or one that cannot be evaluated, matches no node. */
function matches({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm, labels: Labels, fields: Labels) {
  if (matchExpressions.length + matchFields.length === 0) return false;
  return (
    matchExpressions.every((requirement) => matchesLabel(requirement, labelOf(labels, requirement.key))) &&
    matchFields.every((requirement) => matchesField(requirement, labelOf(fields, requirement.key) ?? ""))
  );
}

function matchesLabel({ operator, values = [] }: NodeSelectorRequirement, label: string | undefined): boolean {
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

/** Fields are compared with exactly one value. */
function matchesField({ operator, values = [] }: NodeSelectorRequirement, field: string): boolean {
  if (values.length !== 1) return false;
  return operator === "In" ? field === values[0] : operator === "NotIn" && field !== values[0];
}

function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

function integerOf(text: string | undefined): bigint | undefined {
  return text !== undefined && /^[+-]?\d{1,19}$/.test(text) ? BigInt(text.replace("+", "")) : undefined;
}

/** Whether the pod tolerates every `NoExecute` taint of the node. Other taint effects concern only the scheduler. */
export function toleratesNode({ spec }: Pod, { taints }: NodeTraits): boolean {
  return taints
    .filter(({ effect }) => effect === "NoExecute")
    .every((taint) => (spec.tolerations ?? []).some((toleration) => tolerates(toleration, taint)));
}

/**
 * An empty effect or key matches all. The operators `Lt` and `Gt` are an alpha feature, which is off: they match
 * nothing.
 */
function tolerates({ effect, key, operator, value = "" }: Toleration, taint: Taint): boolean {
  if (effect && effect !== taint.effect) return false;
  if (key && key !== taint.key) return false;
  return operator === "Exists" || ((operator || "Equal") === "Equal" && value === (taint.value ?? ""));
}
