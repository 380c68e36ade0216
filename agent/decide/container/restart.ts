import { isEphemeral, isRunToCompletion } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { backoffDelayMs, dueAfter } from "../pod/backoff.ts";
import type { ExitedContainer } from "../pod/observed.ts";
import { type EndOfStart, wasStartInterrupted } from "./interrupted-start.ts";

const INITIAL_DELAY_MS = 10_000;
const RESET_AFTER_MS = 600_000;

/**
 * Whether an exited container should run again: by the first of its own rules that matches, else by its own policy,
 * else by the pod's. An init container (not a sidecar) that has succeeded is done, whatever the policies and rules say;
 * only `RestartAllContainers` runs it again. An ephemeral container runs once. A container whose start was interrupted
 * before it could run counts as not started yet.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-restart-rules
 */
export function shouldRestart(
  pod: Pod,
  container: Pick<Container, "name" | "restartPolicy" | "restartPolicyRules">,
  exit: EndOfStart,
): boolean {
  const { restartPolicy } = container;
  const { exitCode } = exit;
  if (isEphemeral(pod, container.name)) return false;
  if (restartsAllContainers(container, exitCode) || wasStartInterrupted(exit)) return true;
  if (exitCode === 0 && isRunToCompletion(pod, container)) return false;
  if (matchingRuleAction(container, exitCode) !== undefined) return true;
  switch (restartPolicy ?? pod.spec.restartPolicy) {
    case "Never":
      return false;
    case "OnFailure":
      return exitCode !== 0;
    // A policy of a newer API that this release does not know counts as the default.
    default:
      return true;
  }
}

type Rule = NonNullable<Container["restartPolicyRules"]>[number];
type ExitCodes = NonNullable<Rule["exitCodes"]>;

/**
 * Whether an exit of a container restarts all containers of its pod. As with the kubelet, no exit is exempt, not even
 * the success of an init container: a rule that matches it (`NotIn [1]` does) restarts the pod once a second, for ever.
 */
export function restartsAllContainers(container: Pick<Container, "restartPolicyRules">, exitCode: number): boolean {
  return matchingRuleAction(container, exitCode) === "RestartAllContainers";
}

/** The action of the first of the container's own rules that matches; undefined if none does. */
function matchingRuleAction(
  { restartPolicyRules = [] }: Pick<Container, "restartPolicyRules">,
  exitCode: number,
): Rule["action"] | undefined {
  return restartPolicyRules.find(({ exitCodes }) => exitCodes !== undefined && matchesExitCode(exitCodes, exitCode))
    ?.action;
}

function matchesExitCode({ operator, values = [] }: ExitCodes, exitCode: number): boolean {
  return values.includes(exitCode) === (operator === "In");
}

/*
 * The restart back-off is arithmetic on what the container itself carries. `crashes` is written to it at creation:
 *
 *   attempt 0 (crashes 0) exits: restart at once        -> attempt 1 (crashes 1)
 *   attempt 1 exits:             wait 10 s              -> attempt 2 (crashes 2)
 *   attempt 2 exits:             wait 20 s              -> attempt 3 (crashes 3) …  40, 80, 160, 300, 300 s
 *   attempt n exits after more than 10 min of life: restart at once -> attempt n+1 (crashes 1)
 *
 * So an agent that dies and comes back waits exactly as long as the previous one would have. The numbers are the
 * kubelet's: base 10 s (or the configured maximum, if that is shorter), doubling, reset after 600 s.
 */

/** The restart delay after an exit of a container with `crashes` crashes, in milliseconds. */
export function restartDelayMs(crashes: number, maxDelayMs: number): number {
  return backoffDelayMs({ initialMs: INITIAL_DELAY_MS, maxMs: maxDelayMs }, crashes);
}

/** When an exited container may be started again, in epoch milliseconds. */
export function restartAt(exited: ExitedContainer, maxDelayMs: number, now: number): number {
  const delayMs = isBackoffReset(exited) ? 0 : restartDelayMs(exited.crashes, maxDelayMs);
  return dueAfter(exited.finishedAt, delayMs, now);
}

/**
 * Until when a container in restart back-off shows why it was stopped; for the rest of the delay it shows the back-off.
 */
export function exitShownUntil({ finishedAt }: ExitedContainer, due: number): number {
  return finishedAt + (due - finishedAt) / 2;
}

/** The crash count of an exited container's successor. */
export function crashesAfter(exited: ExitedContainer): number {
  return isBackoffReset(exited) ? 1 : exited.crashes + 1;
}

/** True after a life of more than ten minutes: earlier crashes do not count any more. */
export function isBackoffReset({ createdAt, finishedAt }: ExitedContainer): boolean {
  return finishedAt - createdAt > RESET_AFTER_MS;
}
