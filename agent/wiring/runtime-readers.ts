import { readCgroupDriver } from "../../cri/cgroup-driver.ts";
import type { CriRuntime } from "../../cri/client.ts";
import type { Runtime } from "../../cri/runtime.ts";
import type { Files } from "../../host/fs/files.ts";
import type { Log } from "../../host/log/log.ts";
import type { LocalNodeOptions } from "./local-node.ts";
import type { OwnedNetwork } from "./network-owner.ts";
import { withNetworkCause } from "./runtime-network.ts";

/**
 * What the node reads of the runtime: NetworkReady is the condition of the network that the agent executes, if it does; else the
 * runtime's, with its cause.
 */
export function runtimeReaders(
  runtime: CriRuntime,
  network: OwnedNetwork | undefined,
  adapters: { readonly files: Files; readonly log: Log },
): Pick<LocalNodeOptions, "runtime" | "readCgroupDriver"> {
  const status = network?.withCondition(runtime.status) ?? withNetworkCause(runtime.status, { runtime, ...adapters });
  // The node asks for the version on a new connection, and while the runtime is not ready, in the same turn as for the status: the folder
  // check is invalid before the status is judged.
  const version: Runtime["version"] = (options) => {
    network?.onRuntimeBack();
    return runtime.version(options);
  };
  return {
    runtime: { ...runtime, status, version },
    readCgroupDriver: (options) => readCgroupDriver(runtime, options),
  };
}
