import type { NetworkConf } from "../../../cni/conf.ts";
import type { ExecutedNetwork } from "../../../cni/delegate/execute-call.ts";
import type { Log } from "../../../host/log/log.ts";

interface LoggedNetwork {
  readonly confDir: string;
  /** Undefined where the folders have no network. */
  readonly conf?: Pick<NetworkConf, "name">;
}

/** Logs which network the agent executes, once it serves, and each change of its name or its folder. */
export function createExecutedNetworkLog({
  socket,
  log,
}: {
  readonly socket: string;
  readonly log: Pick<Log, "info">;
}) {
  let logged: LoggedNetwork | undefined;
  const write = (network: LoggedNetwork, message: string) => {
    logged = network;
    log.info({ network: network.conf?.name, confDir: network.confDir, socket }, message);
  };
  return {
    start: (network: LoggedNetwork) => write(network, "the agent executes the network of pods"),
    onNetwork({ confDir, conf }: ExecutedNetwork) {
      if (logged === undefined || (logged.confDir === confDir && logged.conf?.name === conf.name)) return;
      const isFirst = logged.conf === undefined;
      write(
        { confDir, conf },
        isFirst ? "the agent executes the network of pods" : "the agent executes another network of pods now",
      );
    },
  };
}
