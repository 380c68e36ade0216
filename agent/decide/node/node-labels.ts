import type { ObservedMachine } from "./observed-node.ts";

/** The labels that a node gives itself, whoever else may give it some. */
export function ownLabels(
  { architecture }: Pick<ObservedMachine, "architecture">,
  nodeName: string,
): Readonly<Record<string, string>> {
  return {
    "beta.kubernetes.io/arch": architecture,
    "beta.kubernetes.io/os": "linux",
    "kubernetes.io/arch": architecture,
    "kubernetes.io/hostname": nodeName,
    "kubernetes.io/os": "linux",
  };
}
