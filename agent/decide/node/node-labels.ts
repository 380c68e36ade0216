import {
  archLabel,
  betaArchLabel,
  betaOsLabel,
  hostnameLabel,
  osLabel,
} from "../../../proto/kubernetes/well-known-names.ts";
import type { ObservedMachine } from "./observed-node.ts";

/** The labels that the agent sets on its own Node; others may set more. */
export function builtInLabels(
  { architecture }: Pick<ObservedMachine, "architecture">,
  nodeName: string,
): Readonly<Record<string, string>> {
  return {
    [betaArchLabel]: architecture,
    [betaOsLabel]: "linux",
    [archLabel]: architecture,
    [hostnameLabel]: nodeName,
    [osLabel]: "linux",
  };
}
