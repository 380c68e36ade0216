import { usualCacheDir } from "../../cni/network-facts.ts";
import type { OwnedNetwork } from "./network-owner.ts";
import { auditRuntimeNetwork, type RuntimeNetworkAuditDeps } from "./runtime-network-audit.ts";

/**
 * Audits the network of pods from now on: the agent's own, or that of the container runtime. It is called after the servers have started and
 * before the runtime is listed. GC of the agent's network waits until the first starts are over (`createNetworkAuditTimes`). The audit of the
 * runtime's network follows its list at once: no ADD waits for it, and a torn entry keeps a pod from ending until it is set aside.
 */
export function startNetworkAudit(
  network: Pick<OwnedNetwork, "audit"> | undefined,
  adapters: Omit<RuntimeNetworkAuditDeps, "env" | "cacheDir"> & Parameters<OwnedNetwork["audit"]>[0],
): { stop(): Promise<void> } {
  return network?.audit(adapters) ?? auditRuntimeNetwork({ ...adapters, env: process.env, cacheDir: usualCacheDir });
}
