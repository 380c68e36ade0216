import { uptime } from "node:os";
import type { Executor } from "../../cni/executor.ts";
import { usualCni } from "../../cni/network-facts.ts";
import { createRuntimeGarbageCollection } from "../../cni/runtime/runtime-garbage.ts";
import { containerdCni, containerdConfig } from "../../cri/containerd-config.ts";
import type { Runtime } from "../../cri/runtime.ts";
import type { RuntimeControl } from "../../cri/runtime-control.ts";
import type { Clock } from "../../host/clock.ts";
import type { Exec } from "../../host/exec.ts";
import { createFiles, type Files } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { isNamespaceMount } from "../../host/network-namespace.ts";
import { createNetworkAudit } from "../act/network/network-audit.ts";
import type { Agent } from "./agent.ts";
import { listSandboxes } from "./listed-sandboxes.ts";

export interface RuntimeNetworkAuditDeps {
  readonly runtime: Pick<Runtime, "listPodSandbox"> & Pick<RuntimeControl, "verboseStatus">;
  readonly agent: Pick<Agent, "runtimeListed">;
  readonly exec: Exec;
  /** Rooted at `/`. */
  readonly hostFiles: Files;
  /** The environment of the plugins. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** libcni's cache, which container runtimes use; `/var/lib/cni` on a node. */
  readonly cacheDir: string;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Where the container runtime executes the network: whenever the runtime was listed, deletes the attachments that have outlived their pods, and
 * sets torn files of its cache aside, with which it could stop no pod. A DEL that has failed is tried again with a growing delay.
 */
export function auditRuntimeNetwork(deps: RuntimeNetworkAuditDeps): { stop(): Promise<void> } {
  const { runtime, agent, cacheDir, clock, log } = deps;
  const files = createFiles(cacheDir);
  let opened: Pick<Executor, "createCni"> | undefined;
  const audit = createNetworkAudit({
    listSandboxes: () => listSandboxes(runtime, clock),
    collectGarbage: createRuntimeGarbageCollection({
      ...{ files, isNamespace: isNamespaceMount, bootedAt: clock.now() - uptime() * 1_000, clock, log },
      async openCni(timeLimit) {
        opened ??= await openExecutor(deps, files);
        return opened.createCni(() => undefined, timeLimit);
      },
    }),
    ...{ clock, log },
  });
  const unsubscribe = agent.runtimeListed.subscribe(audit.wake);
  return {
    async stop() {
      unsubscribe();
      await audit.stop();
    },
  };
}

/** Loaded lazily: on most nodes there is nothing to delete. Rejects with `CriError`. */
async function openExecutor(
  { runtime, exec, hostFiles: files, env, clock, log }: RuntimeNetworkAuditDeps,
  cacheFiles: Files,
): Promise<Executor> {
  const [{ createExecutor }, { createNetlink }, status] = await Promise.all([
    import("../../cni/executor.ts"),
    import("../../host/netlink/netlink.ts"),
    runtime.verboseStatus(),
  ]);
  const { binDirs } = containerdCni(containerdConfig(status)) ?? usualCni;
  return createExecutor({
    ...{ exec, files, cacheFiles, netlink: createNetlink(), clock, binDirs, env },
    description: `berth run, pid ${process.pid}`,
    onUnreadable: ({ asideName, reason }) =>
      log.warn({ file: asideName, reason }, "a file of the network's cache is unreadable, and was set aside"),
  });
}
