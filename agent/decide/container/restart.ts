import { isEphemeral, runsToItsEnd } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { delayOf, dueAfter } from "../pod/backoff.ts";
import type { ContainerExit, ExitedContainer } from "../pod/observed.ts";

const FIRST_DELAY_MS = 10_000;
const FORGIVEN_AFTER_MS = 600_000;

/**
 * Whether a container that exited is to run again: by the first of its own rules that fits, else by its own policy, else by the pod's. An
 * init container that has succeeded, and is no sidecar, has done what it was for, whatever policies and rules say of it; only where they
 * restart all, it begins anew with all. An ephemeral container runs once.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restart-rules
 */
export function shouldRestart(
  pod: Pod,
  container: Pick<Container, "name" | "restartPolicy" | "restartPolicyRules">,
  { exitCode }: Pick<ContainerExit, "exitCode">,
): boolean {
  const { restartPolicy } = container;
  if (isEphemeral(pod, container.name)) return false;
  if (restartsAll(container, exitCode)) return true;
  if (exitCode === 0 && runsToItsEnd(pod, container)) return false;
  if (actionAfter(container, exitCode) !== undefined) return true;
  switch (restartPolicy ?? pod.spec.restartPolicy) {
    case "Never":
      return false;
    case "OnFailure":
      return exitCode !== 0;
    // What a newer API calls by a name that is not known here counts as what stands where nothing is said.
    default:
      return true;
  }
}

type Rule = NonNullable<Container["restartPolicyRules"]>[number];
type ExitCodes = NonNullable<Rule["exitCodes"]>;

/**
 * Whether an exit of a container restarts all of its pod. As with the kubelet no exit is exempt, an init container's success no more than
 * others: a rule that fits it (`NotIn [1]` does) restarts the pod again and again, once a second.
 */
export function restartsAll(container: Pick<Container, "restartPolicyRules">, exitCode: number): boolean {
  return actionAfter(container, exitCode) === "RestartAllContainers";
}

/** What the first of a container's own rules that fits asks for; undefined where none fits. */
function actionAfter(
  { restartPolicyRules = [] }: Pick<Container, "restartPolicyRules">,
  exitCode: number,
): Rule["action"] | undefined {
  return restartPolicyRules.find(({ exitCodes }) => exitCodes !== undefined && fits(exitCodes, exitCode))?.action;
}

function fits({ operator, values = [] }: ExitCodes, exitCode: number): boolean {
  return values.includes(exitCode) === (operator === "In");
}

/*
 * The back-off is arithmetic on what the container itself carries. `crashes` is written to it at creation:
 *
 *   attempt 0 (crashes 0) exits: restart at once        -> attempt 1 (crashes 1)
 *   attempt 1 exits:             wait 10 s              -> attempt 2 (crashes 2)
 *   attempt 2 exits:             wait 20 s              -> attempt 3 (crashes 3) …  40, 80, 160, 300, 300 s
 *   attempt n exits after more than 10 min of life: restart at once -> attempt n+1 (crashes 1)
 *
 * So an agent that dies and comes back waits exactly as long as the one that died would have. The numbers are the
 * kubelet's: base 10 s (or the configured maximum, if that is shorter), doubling, forgiven after 600 s.
 */

/** The delay that the exit of a container with so many crashes behind it has to wait, in milliseconds. */
export function restartDelayMs(crashes: number, maxDelayMs: number): number {
  return delayOf({ firstMs: FIRST_DELAY_MS, longestMs: maxDelayMs }, crashes);
}

/** When an exited container may start again, in epoch milliseconds. */
export function restartAt(exited: ExitedContainer, maxDelayMs: number, now: number): number {
  if (isForgiven(exited)) return exited.finishedAt;
  return dueAfter(exited.finishedAt, restartDelayMs(exited.crashes, maxDelayMs), now);
}

/** Until when a container that waits for its restart is shown with why it was stopped; for the rest it is shown with its back-off. */
export function endNewsUntil({ finishedAt }: ExitedContainer, due: number): number {
  return finishedAt + (due - finishedAt) / 2;
}

/** What to write on the successor of an exited container. */
export function crashesAfter(exited: ExitedContainer): number {
  return isForgiven(exited) ? 1 : exited.crashes + 1;
}

/** True after a life of more than ten minutes: what happened before it does not count. */
export function isForgiven({ createdAt, finishedAt }: ExitedContainer): boolean {
  return finishedAt - createdAt > FORGIVEN_AFTER_MS;
}
