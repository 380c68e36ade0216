import { DELEGATE_DIR } from "../../agent/config/config.ts";
import { type CniFacts, cniProblemOf } from "../../cni/network-facts.ts";
import { joinWithAnd } from "../../proto/join-with-and.ts";
import { type Finding, type Judge, judged, okFinding, problemFinding } from "./finding.ts";
import type { MachineFacts } from "./machine-facts.ts";
import type { PodNetworkFacts } from "./pod-network-facts.ts";
import { isForbidden, wordsOf } from "./runtime-findings.ts";

const NETWORK = { check: "network", subject: "the network configuration" } as const;
const DELEGATE = { check: "network", subject: "the list of berth-cni" } as const;

/**
 * Who executes the network of pods, what the runtime reports of its network, and whether every program of the configurations is
 * installed: of the runtime's own one, and of the one that an agent executes.
 */
export const judgeNetwork: Judge = (facts) => {
  const { podNetwork } = facts;
  const delegated = judged(facts, "podNetwork", DELEGATE, judgeDelegate);
  if (delegated.length > 0 && "value" in podNetwork) return delegated;
  const found = judgeFolders(facts, delegated);
  const answer = "value" in facts.runtime ? facts.runtime.value : undefined;
  if (answer === undefined || !isForbidden(answer)) return found;
  // Without the runtime's report the folders are only the usual ones, and the network may be elsewhere.
  return found.map((finding) => ({ ...finding, state: finding.state === "ok" ? "ok" : "warning" }));
};

/** What keeps an agent from executing the network as configured. */
function judgeDelegate({ owner, folderProblem }: PodNetworkFacts): readonly Finding[] {
  if (folderProblem !== undefined) return [problemFinding("network", folderProblem.found, folderProblem.cure)];
  return owner.by === "none" ? [problemFinding("network", owner.problem, owner.cure)] : [];
}

/** `unreadable` are the findings of a delegate's list that cannot be read. */
function judgeFolders(facts: MachineFacts, unreadable: readonly Finding[]): readonly Finding[] {
  const { podNetwork } = facts;
  const { owner, executed, ...network } =
    "value" in podNetwork ? podNetwork.value : { isStandalone: false, isBuiltinFallback: false };
  const isByAgent = owner?.by === "agent";
  const answer = "value" in facts.runtime && facts.runtime.value.isReachable ? facts.runtime.value.facts : undefined;
  const ready = answer?.conditions.find(({ type }) => type === "NetworkReady");
  const ofRuntime = judged(facts, "cni", NETWORK, (cni) => {
    // The usual folder is not the one with the delegate.
    const own = isByAgent && answer?.cni === undefined ? [] : judgeCni(cni, ready?.status, network);
    const found =
      hasProblem(own) || executed === undefined ? own : judgeExecuted(executed, executorOf(facts, isByAgent), network);
    if (ready?.status !== false || hasProblem(found)) return found;
    return [
      problemFinding(
        "network",
        `the container runtime says that its network is not ready: ${wordsOf(ready)}`,
        `correct what it names below ${cni.confDir}, and restart the runtime if it does not notice`,
      ),
    ];
  });
  return [...unreadable, ...ofRuntime];
}

const hasProblem = (findings: readonly Finding[]) => findings.some(({ state }) => state === "problem");

const PLUGINS = "install the CNI plugins there (github.com/containernetworking/plugins), or";
/** Debian's package of the plugins, and the folder that it has. */
const DEBIAN = "Debian's package containernetworking-plugins: ";

const GET_PLUGINS = `${PLUGINS} point the runtime's bin_dir to them (${DEBIAN}/usr/lib/cni)`;

const GET_EXECUTED_PLUGINS = `${PLUGINS} name their folder by --bin-dir of berth cni install (${DEBIAN}--bin-dir /opt/cni/bin:/usr/lib/cni)`;

/** How a node without a configuration in `confDir` gets a network. `setUp` makes the agent execute the built-in one. */
function getNetwork(confDir: string, { isStandalone }: JudgedNetwork, setUp: string): string {
  if (isStandalone) return `put a list into ${confDir}, or let the agent execute the built-in network: ${setUp}`;
  return `install the network of your cluster (Flannel, Cilium, Calico …), or let the agent execute the built-in network, which reaches no other node: ${setUp}`;
}

type JudgedNetwork = Pick<PodNetworkFacts, "isStandalone" | "isBuiltinFallback"> &
  Partial<Pick<PodNetworkFacts, "builtinRanges">>;

const RUN_BUILTIN = "--network=builtin for berth run";
const INSTALL_DELEGATE = `berth cni install, then conf_dir = "${DELEGATE_DIR}" in the runtime's configuration`;

/** `getPlugins` is the cure for plugins that are missing. */
function cureOf({ problem, missingPlugins, notExecutable }: CniFacts, getPlugins: string): string {
  if (problem !== undefined) return "correct or remove that file";
  return missingPlugins.length > 0 ? getPlugins : `chmod +x ${notExecutable.join(" ")}`;
}

/** The runtime's own configuration. `isReady` is what the runtime reports; a runtime that is ready may read its network from elsewhere. */
function judgeCni(cni: CniFacts, isReady: boolean | undefined, node: JudgedNetwork): readonly Finding[] {
  const { confDir, file, binDirs, plugins } = cni;
  const problem = cniProblemOf(cni);
  if (problem === undefined)
    return [okFinding("network", `${file} uses ${joinWithAnd(plugins)}, all in ${joinWithAnd(binDirs)}`)];
  if (file !== undefined) return [problemFinding("network", problem, cureOf(cni, GET_PLUGINS))];
  if (isReady === true) return [okFinding("network", "the container runtime says that its network is ready")];
  const setUp = node.isBuiltinFallback ? INSTALL_DELEGATE : `${INSTALL_DELEGATE} and ${RUN_BUILTIN}`;
  const cure = `${getNetwork(confDir, node, setUp)}; restart the runtime and the agent`;
  return [problemFinding("network", withoutNetwork(problem), cure)];
}

function executorOf({ agent }: MachineFacts, isByAgent: boolean): string {
  if (!isByAgent) return "the runtime's plugin berth-cni";
  return "value" in agent && agent.value !== undefined ? "the agent" : "an agent with this configuration";
}

/** The network that an agent executes for the runtime. */
function judgeExecuted(executed: CniFacts, executor: string, network: JudgedNetwork): readonly Finding[] {
  const { confDir, file, plugins } = executed;
  const { builtinRanges } = network;
  const problem = cniProblemOf(executed);
  const ranges = builtinRanges === undefined || builtinRanges.length === 0 ? "" : ` (${joinWithAnd(builtinRanges)})`;
  const what = builtinRanges === undefined ? `${file} with ${joinWithAnd(plugins)}` : `the built-in network${ranges}`;
  if (problem === undefined) return [okFinding("network", `${executor} executes ${what}`)];
  if (file !== undefined) return [problemFinding("network", problem, cureOf(executed, GET_EXECUTED_PLUGINS))];
  return [problemFinding("network", withoutNetwork(problem), getNetwork(confDir, network, RUN_BUILTIN))];
}

const withoutNetwork = (problem: string) => `${problem}: pods without host network cannot start`;
