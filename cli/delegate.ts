import { askAgent } from "../cni/delegate/ask-agent.ts";
import type { DelegateCall } from "../cni/delegate/delegate-call.ts";
import type { DelegateConf } from "../cni/delegate/delegate-conf.ts";
import type { CallOutput } from "../cni/delegate/execute-call.ts";
import { runDelegate } from "../cni/delegate/run-delegate.ts";
import { CniError, cniCodes } from "../cni/error.ts";
import type { NetworkDefinitions } from "../cni/secondary/pod-networks.ts";
import { createClock } from "../host/clock.ts";

/**
 * This program as the CNI plugin `berth-cni`, which a container runtime starts for each call, or which the static form in `berth-cni.c`
 * executes. The parameters are in the environment. Prints what the specification says and returns the exit code. It loads the executor
 * only when the agent is away.
 */
export async function runCniDelegate(args: readonly string[]): Promise<number> {
  const { env } = process;
  const clock = createClock();
  const { stdout, exitCode } = await runDelegate({
    ...{ args, env, clock, execute },
    readStdin: () => Bun.stdin.text(),
    askAgent: (socket, call, signal) => askAgent(socket, call, signal, clock),
  });
  await Bun.write(Bun.stdout, stdout);
  return exitCode;
}

async function execute(conf: DelegateConf, call: DelegateCall, signal: AbortSignal): Promise<CallOutput> {
  const [{ findConfDirs }, { executeCall }, { createTimeLimit }, { createLocalExecutor }] = await Promise.all([
    import("../cni/delegate/builtin-list.ts"),
    import("../cni/delegate/execute-call.ts"),
    import("../cni/time-limit.ts"),
    import("./cni/local-executor.ts"),
  ]);
  const { files, executor } = createLocalExecutor(conf, "berth-cni");
  const confDirs = await findConfDirs(files, conf);
  const timeLimit = createTimeLimit(call.timeLeftMs, createClock(), signal);
  const deps = {
    ...executor,
    cni: executor.createCni(() => {}, timeLimit),
    timeLimit,
    files,
    confDirs,
    chainDir: conf.confDir,
  };
  return await executeCall({ ...deps, definitions: definitionsOfAgent(conf) }, call, signal);
}

/** Only the agent reads objects of the API server. A pod that selects networks waits for it, instead of starting without them. */
function definitionsOfAgent({ socket }: DelegateConf): NetworkDefinitions {
  return {
    async read({ namespace, name }) {
      const message = `the pod selects the network ${namespace}/${name}, which the agent on ${socket} reads from the API server; it is away`;
      throw new CniError(cniCodes.tryAgainLater, message);
    },
    async publishStatus() {},
  };
}
