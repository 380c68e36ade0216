import { allCases } from "./cases/all.ts";
import { hasEnded, type PodCase } from "./cases/pod-case.ts";
import { rejectedCases } from "./cases/rejections.ts";
import type { KnownDifference } from "./compare.ts";

export const fewTimes = /^×[1-9]$/;
/** The pods whose containers exit by themselves, and whose hook fails, again and again. */
const crashing = /-loop$|-crashes$/;
/** Those whose containers exit by themselves. */
export const exitsRepeatedly = /^((static-)?crash|failure|(rule-for-)?success|init)-loop$|-crashes$/;
/** The message of a container of the pod that waits for so many seconds. */
export const backOffOf = (seconds: number) =>
  new RegExp(
    String.raw`^back-off ${seconds}s restarting failed container=(main|other|side|first) pod=[a-z-]+(NODE)?_NAMESPACE\(UID\)$`,
  );
/** A pattern of the names of these cases. */
export const namesOf = (cases: readonly PodCase[]) => new RegExp(`^(${cases.map(({ name }) => name).join("|")})$`);
/** The pods that have had a network, and end. */
const ended = namesOf(
  allCases.filter(
    (each) => (each.until === hasEnded || each.name === "out-of-memory") && !rejectedCases.includes(each),
  ),
);
/** The kubelet's event of a probe during which the container is stopped. */
export const canceledProbe = (kind: "Readiness" | "Liveness") =>
  `event Warning Unhealthy spec.containers{main}: ${kind} probe errored and resulted in unknown state: rpc error: code = Canceled desc = context canceled`;
/**
 * The kubelet makes a readiness probe for a status that it decides while the container is not ready, one such probe may still
 * wait when the pod is deleted, and one may be due during the stop, which takes less than a period of 5 s. The deletion
 * cancels the calls of these probes.
 */
export const probesDuringStop = ["×1", "×2", "×3"];
export const stopsDuringProbe =
  "the container may be stopped during a probe: the kubelet repeats the probe, Berth ignores it";
export const withoutNetwork =
  "a finished pod has no network; whether the kubelet's status shows that depends on its last sync";
const TERMINATED = String.raw`terminated\.(exitCode|reason|startedAt|finishedAt|containerID)$`;
export const manifestRemoved =
  "the mirror of a removed static pod shows its final status before it is deleted; the kubelet deletes it at once";
export const refusedSubPaths = /^sub-path(s-that-lea|-expressions-refused)/;
export const main = "containerStatuses[main]";
export const showsBackOff =
  "CrashLoopBackOff is shown during the back-off; the kubelet shows it at its next sync, when the back-off is over";

const endsTwice =
  "the kubelet reports the pod as failed before or after its container has ended; both hold when it is deleted";

/** Pods whose containers still run when the pod has failed. */
const failsBeforeItsEnd = /^(deadline|sidecar-beside-a-failed-init$)/;
/** The fields of `terminated` of a container that ends by SIGTERM. One that ignores it ends alike in all runs. */
const endBySigterm = /^(143|Error|TIME|containerd:\/\/INSTANCE 0 OF \w+)$/;
/** Those of the third instance of the static pod in its crash loop. */
const endOfCrash = /^(13|Error|TIME|containerd:\/\/INSTANCE 2 OF main)$/;
/** The same where the kubelet no longer finds it. */
const lostEnd = /^(137|ContainerStatusUnknown|The container could not be located when the pod was terminated|null)$/;

export const untilDeleted =
  "the event repeats until the pod is deleted, so its count depends on the time of the deletion";

/** Differences that come and go between runs of the kubelet itself, with the values that they have. */
export const timingDependent: readonly KnownDifference[] = [
  {
    // When the second back-off (20s) is over, the kubelet's message names the next one (40s); a run may be read then.
    pod: exitsRepeatedly,
    field: /^later \w+Statuses\[\w+\]\.state\.waiting\.message$/,
    kubelet: [backOffOf(40), undefined],
    berth: backOffOf(20),
    examples: ["back-off 40s restarting failed container=main pod=crash-loop_NAMESPACE(UID)"],
    reason: showsBackOff,
  },
  {
    pod: ended,
    field: /^(settled|gone) conditions\[PodReadyToStartContainers\]\.status$/,
    kubelet: ["True", "False"],
    berth: "False",
    reason: withoutNetwork,
  },
  {
    pod: /^liveness-(fails-once|ends-it)$/,
    field: canceledProbe("Liveness"),
    // A liveness probe is made only when it is due.
    kubelet: ["×1", undefined],
    reason: stopsDuringProbe,
  },
  {
    // A kubelet may already show that the network is removed.
    pod: /^static(-crash-loop)?$/,
    field: "gone conditions[PodReadyToStartContainers].status",
    kubelet: ["True", "False"],
    berth: "True",
    reason: manifestRemoved,
  },
  {
    pod: "static-crash-loop",
    field: `gone ${main}.state.waiting.reason`,
    kubelet: ["CrashLoopBackOff", undefined],
    reason: manifestRemoved,
  },
  {
    pod: "static-crash-loop",
    field: `gone ${main}.state.waiting.message`,
    kubelet: [backOffOf(20), undefined],
    reason: manifestRemoved,
  },
  {
    pod: "static-crash-loop",
    field: new RegExp(String.raw`^gone containerStatuses\[main\]\.state\.${TERMINATED}`),
    kubelet: [endOfCrash, lostEnd, undefined],
    berth: endOfCrash,
    reason: manifestRemoved,
  },
  {
    pod: "static-crash-loop",
    field: `gone ${main}.state.terminated.message`,
    kubelet: ["The container could not be located when the pod was terminated", undefined],
    reason: manifestRemoved,
  },
  {
    pod: failsBeforeItsEnd,
    field: /^settled .*\.(ready|started)$/,
    kubelet: ["true", "false"],
    berth: "false",
    reason: endsTwice,
  },
  {
    pod: failsBeforeItsEnd,
    field: /^settled .*\.running\.startedAt$/,
    kubelet: ["TIME", undefined],
    reason: endsTwice,
  },
  {
    pod: failsBeforeItsEnd,
    field: new RegExp(String.raw`^settled .*\.${TERMINATED}`),
    kubelet: [endBySigterm, undefined],
    berth: endBySigterm,
    reason: endsTwice,
  },
  {
    pod: crashing,
    field: /^event Warning BackOff\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 1,
    reason: untilDeleted,
  },
  {
    pod: /^pull-(?!secret-missing$)|^debug-image-refused$/,
    field: /^event (Normal (BackOff|Pulling)|Warning Failed)\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 2,
    reason: untilDeleted,
  },
  {
    pod: /^unready-by-/,
    field: /^event Warning Unhealthy\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 3,
    // A probe more on a busy machine, or one less that was under way when the container ended. The kubelet's runs differ by
    // one, those of some pods by chance not.
    withinAgreed: 1,
    reason: untilDeleted,
  },
  {
    pod: /ready-by-(named-)?(http|tcp|tls|redirect|redirect-elsewhere)$/,
    field: /^event Warning Unhealthy\b.*: connection (refused|reset by peer)$/,
    kubelet: [/^×[1-3]$/, undefined],
    berth: [/^×[1-3]$/, undefined],
    reason: "the server may not listen yet at the first probe, or no longer at the last one",
  },
  {
    pod: /^(seccomp-missing|group-without-user)$/,
    field: /^event (Normal Pulled|Warning Failed)\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 3,
    reason: untilDeleted,
  },
  {
    pod: /^no-volume-/,
    field: /^event Warning FailedMount\b/,
    kubelet: [fewTimes, undefined],
    berth: fewTimes,
    within: 3,
    // The kubelet's tries have a back-off of their own. Its runs differ by one, those of some pods by chance not.
    withinAgreed: 1,
    reason: untilDeleted,
  },
  {
    // The kubelet asks its cache for an object before it watches it.
    pod: /^no-volume-|^token/,
    field: /^event Warning FailedMount: .* : object "NAMESPACE"\/"[a-z.-]+" not registered$/,
    kubelet: [/^×[1-3]$/, undefined],
    reason: "the kubelet may ask its cache for an object that it does not watch yet",
  },
  {
    pod: /-unknown-handler$|-fqdn-too-long$|^user-namespace$/,
    field: /^event Warning FailedCreatePodSandBox\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 2,
    reason: untilDeleted,
  },
];
