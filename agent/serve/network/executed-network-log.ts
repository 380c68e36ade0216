import type { NetworkConf } from "../../../cni/conf.ts";
import type { ExecutedNetwork } from "../../../cni/delegate/execute-call.ts";
import type { Log } from "../../../host/log/log.ts";

interface LoggedNetwork {
  readonly confDir: string;
  /** Undefined where the folders have no network that the agent can execute. */
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
    const { confDir, conf } = network;
    log.info({ ...(conf && { network: conf.name }), confDir, socket }, message);
  };
  return {
    start: (network: LoggedNetwork) => write(network, network.conf === undefined ? NO_NETWORK : FIRST_NETWORK),
    onNetwork({ confDir, conf }: ExecutedNetwork) {
      if (logged === undefined || (logged.confDir === confDir && logged.conf?.name === conf.name)) return;
      write({ confDir, conf }, logged.conf === undefined ? FIRST_NETWORK : OTHER_NETWORK);
    },
  };
}

const NO_NETWORK = "the agent serves berth-cni; it finds no network of pods yet";
const FIRST_NETWORK = "the agent executes the network of pods";
const OTHER_NETWORK = "the agent executes another network of pods now";
