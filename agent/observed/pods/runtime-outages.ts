import type { RuntimeStatusReader } from "../node/runtime-status.ts";
import type { PodCache } from "./pod-cache.ts";

/**
 * Wraps the pod cache: reports runtime outages, and has the runtime's name and features read again after each one,
 * since another runtime may have replaced it. Both are known before the first pod is observed.
 */
export function withRuntimeOutages(
  pods: PodCache,
  runtimeStatus: Pick<RuntimeStatusReader, "ensureRead" | "markDisconnected">,
  onOutage: (outage: string) => void,
): PodCache {
  return {
    ...pods,
    async relist() {
      await runtimeStatus.ensureRead();
      await pods.relist();
    },
    markDisconnected(outage) {
      runtimeStatus.markDisconnected();
      pods.markDisconnected(outage);
      if (outage === undefined) return;
      const { verb, message } = outage.error;
      // Which call failed first does not matter to users.
      onOutage(message.replace(`${verb}: `, ""));
    },
  };
}
