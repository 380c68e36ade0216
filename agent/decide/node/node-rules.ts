import type { NodeRule } from "./node.ts";

/** The rules by which the node itself ends pods, the most urgent first. */
export const nodeRules: readonly NodeRule[] = [];
