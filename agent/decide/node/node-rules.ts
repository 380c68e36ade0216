import { cgroupRule } from "./cgroup-rule.ts";
import type { NodeRule } from "./node.ts";

/** The rules by which the node itself ends pods and acts, the most urgent first. */
export const nodeRules: readonly NodeRule[] = [cgroupRule as NodeRule];
