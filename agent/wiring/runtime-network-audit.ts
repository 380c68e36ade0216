import { chainIfUsable } from "../../cni/delegate/execute-call.ts";
import type { Cni } from "../../cni/network.ts";
import { usualCni } from "../../cni/network-facts.ts";
import { createResultCache, type ResultCacheDeps } from "../../cni/result-cache.ts";
import { collectRuntimeGarbage } from "../../cni/runtime/collect-garbage.ts";
import { type CniFolders, containerdCni, containerdConfig } from "../../cri/containerd-config.ts";
import type { Runtime } from "../../cri/runtime.ts";
import type { RuntimeControl } from "../../cri/runtime-control.ts";
import type { Clock } from "../../host/clock.ts";
import type { Exec } from "../../host/exec.ts";
import { createFiles, type Files } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import { isNamespaceMount } from "../../host/network-namespace.ts";
import { createNetworkAudit } from "../serve/network/network-audit.ts";
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
 * Where the container runtime executes the network: whenever it was listed, deletes the attachments that have outlived their pods, and
 * sets torn files of its cache aside, with which it could stop no pod.
 */
export function auditRuntimeNetwork(deps: RuntimeNetworkAuditDeps): { stop(): Promise<void> } {
  const { runtime, agent, hostFiles, cacheDir, clock, log } = deps;
  const cacheFiles = createFiles(cacheDir);
  const onUnreadable: ResultCacheDeps["onUnreadable"] = ({ asideName, reason }) =>
    log.warn({ file: asideName, reason }, "a file of the network's cache is unreadable, and was set aside");
  const cache = createResultCache({ files: cacheFiles, clock, onUnreadable });
  const readFolders = async (): Promise<CniFolders> =>
    containerdCni(containerdConfig(await runtime.verboseStatus())) ?? usualCni;
  const audit = createNetworkAudit({
    listSandboxes: () => listSandboxes(runtime, clock),
    collectGarbage: (sandboxes, signal) =>
      collectRuntimeGarbage(
        {
          ...{ cache, isNamespace: isNamespaceMount },
          loadNetwork: async () => await chainIfUsable(hostFiles, (await readFolders()).confDir),
          openCni: async () => await openCni(deps, cacheFiles, await readFolders(), onUnreadable),
        },
        sandboxes,
        signal,
      ),
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

/** Loaded lazily: on most nodes there is nothing to delete. */
async function openCni(
  { exec, hostFiles: files, env, clock }: RuntimeNetworkAuditDeps,
  cacheFiles: Files,
  { binDirs }: CniFolders,
  onUnreadable: NonNullable<ResultCacheDeps["onUnreadable"]>,
): Promise<Pick<Cni, "del">> {
  const [{ createExecutor }, { createNetlink }] = await Promise.all([
    import("../../cni/executor.ts"),
    import("../../host/netlink/netlink.ts"),
  ]);
  const description = `berth run, pid ${process.pid}`;
  const options = { exec, files, cacheFiles, netlink: createNetlink(), clock, binDirs, env, description, onUnreadable };
  return createExecutor(options).createCni(() => undefined);
}
