import type { PodListing, PodSummary } from "../../agent/serve/local/pod-list.ts";
import { podState } from "../../agent/serve/local/pod-state.ts";

export interface SuggestedCommand {
  readonly title: string;
  readonly command: string;
}

/**
 * The commands that `npm run up` prints for a user to copy: each with an example if that is there and in the right state,
 * else with another pod. A command that would fail for every pod is left out.
 */
export function suggestCommands({ pods }: PodListing, berth: string, rootDir: string): readonly SuggestedCommand[] {
  const forPod = (title: string, command: string, pod: PodSummary | undefined, more = "") =>
    pod === undefined
      ? []
      : [{ title, command: `${berth} ${command} ${podArguments(pod)} --root-dir ${rootDir}${more}` }];
  const find = (example: string, isFit: (pod: PodSummary) => boolean) =>
    pods.find((pod) => pod.name === `${example}-berth` && isFit(pod)) ?? pods.find(isFit);
  return [
    { title: "show pods", command: `${berth} pods --root-dir ${rootDir}` },
    ...forPod("explain", "explain", find("crash", (pod) => podState(pod) !== pod.phase) ?? pods[0]),
    ...forPod("read logs", "logs", find("once", hasStarted)),
    ...forPod("look inside", "exec", find("web", isRunning), " -it -- sh"),
  ];
}

const podArguments = ({ namespace, name }: PodSummary) => (namespace === "default" ? name : `${name} -n ${namespace}`);

const isRunning = ({ status: { containerStatuses = [] } }: PodSummary) =>
  containerStatuses.some(({ state }) => state?.running !== undefined);

const hasStarted = ({ status: { containerStatuses = [] } }: PodSummary) =>
  containerStatuses.some(({ state, lastState }) => state?.running ?? state?.terminated ?? lastState?.terminated);
