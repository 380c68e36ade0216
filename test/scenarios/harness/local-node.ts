import type { NodeFacts } from "../../../agent/translate/node-facts.ts";
import { createLocalNode, type LocalNode, type LocalNodeOptions } from "../../../agent/wiring/local-node.ts";
import { nodeFacts } from "../../fakes/node-facts.ts";
import { createSignalSource, nodeSettings, observedMachine } from "../../fakes/observed-node.ts";

/**
 * The node of a scenario: its loop decides on the pods; no signal has a threshold. Scenarios set the Node object and
 * the readiness of the network themselves.
 */
export function harnessNode({
  rules = [],
  cgroups,
  ...options
}: Pick<LocalNodeOptions, "runtime" | "clock" | "log" | "addresses" | "cgroups"> & {
  readonly rules: LocalNodeOptions["rules"] | undefined;
}): LocalNode {
  const settings = { ...nodeSettings, evictionHard: {}, cgroupsPerQOS: cgroups !== undefined };
  return createLocalNode({
    ...options,
    readCgroupDriver: async () => undefined,
    ...createSignalSource(),
    machine: observedMachine,
    cgroups,
    rules,
    settings,
    isInCluster: false,
  });
}

export const harnessFacts: NodeFacts = {
  ...nodeFacts,
  hostIPs: ["192.0.2.1"],
  thermalThrottlePaths: [],
  rootDir: "/root",
  hostResolvConf: { nameservers: ["192.0.2.53"], searches: [], options: [] },
};
