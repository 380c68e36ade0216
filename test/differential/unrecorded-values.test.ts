import { expect, test } from "bun:test";
import type { Finding, KnownDifference } from "./compare.ts";
import { knownDifferences } from "./known-differences.ts";
import { findUnrecorded } from "./unrecorded-values.ts";

const entry: KnownDifference = { pod: "p", field: "named", kubelet: ["1", undefined], berth: "2", reason: "so" };
const exitCode = "gone containerStatuses[main].state.terminated.exitCode";

test.each<[what: string, field: string, recorded: Finding["kubelet"], live: string | undefined, isStale: boolean]>([
  ["a field in which the recorded runs differ", "x", ["1", "2"], "3", false],
  ["a field that a recorded run lacks", "x", ["1", undefined], "3", false],
  ["a field in which the recorded runs agree", "x", ["1"], "3", true],
  ["a field that no recorded run has", "x", [undefined], "3", true],
  ["a field that all recorded runs have", "x", ["1"], undefined, true],
  ["an order in which the common events of all recorded runs agree", "x", ["1", "1"], "3", true],
  ["an exit code in which the recorded runs differ", exitCode, ["1", "2"], "3", true],
  ["a value that an entry names for the kubelet", "named", ["1"], undefined, false],
  ["the other value that it names", "named", [undefined], "1", false],
  ["the value that it names for Berth", "named", ["1"], "2", false],
  ["a value that it does not name", "named", ["1"], "3", true],
  ["a recorded value that it does not name", "named", ["3"], "1", true],
  ["Berth's value beside a recorded value that it does not name", "named", ["3"], "2", true],
])("%s", (_, field, kubelet, berth, isStale) => {
  const live: Finding = { pod: "p", field, kubelet, berth, kind: "difference" };
  expect(findUnrecorded([live], [entry])).toEqual(isStale ? [live] : []);
});

const allEntries = Object.values(knownDifferences).flat();
const READINESS = "event Warning Unhealthy spec.containers{main}: Readiness probe";
const timedOut = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

/** What live kubelets on a busy machine have shown, and no recorded run. */
const shownByLiveKubelets: readonly (readonly [
  pod: string,
  field: string,
  recorded: Finding["kubelet"],
  live: string | undefined,
])[] = [
  ["projected-volume-changes", "later conditions[PodReadyToStartContainers].status", ["False"], "True"],
  ["no-volume-claim-until-it-is-bound", "gone conditions[PodReadyToStartContainers].status", ["False"], "True"],
  ["claim-twice", "settled conditions[PodReadyToStartContainers].status", ["False"], "True"],
  ["static", "gone containerStatuses[main].state.terminated.exitCode", [undefined], "143"],
  ["static", "gone conditions[Ready].status", ["True"], "False"],
  ["static-crash-loop", "gone containerStatuses[main].state.terminated.exitCode", ["13", undefined], "137"],
  [
    "static-crash-loop",
    "gone containerStatuses[main].state.terminated.message",
    [undefined],
    "The container could not be located when the pod was terminated",
  ],
  ["sidecar-in-back-off-at-the-end", "gone initContainerStatuses[side].lastState.terminated.exitCode", ["12"], "11"],
  [
    "sidecar-in-back-off-at-the-end",
    "event Warning BackOff spec.initContainers{side}: Back-off restarting failed container side in pod sidecar-in-back-off-at-the-end_NAMESPACE(UID)",
    ["×1"],
    undefined,
  ],
  ["sidecar-beside-a-failed-init", "settled initContainerStatuses[side].state.terminated.exitCode", ["143"], undefined],
  ["sub-path-expression-of-objects", "gone times", ["in order"], "main has finished before it started"],
  ["rule-of-init-restarts-all", "settled times", ["in order"], "main has finished before it started"],
  ["no-volume-claim-local-file", "event Warning FailedMount: x", ["×3"], "×5"],
  ["no-volume-claim-host-path-of-wrong-type", "event Warning FailedMount: x", [undefined], "×1"],
  ["unready-by-tcp", `${READINESS} failed: dial tcp POD-IP:9: connect: connection refused`, ["×3"], "×5"],
  ["unready-by-tls", `${READINESS} failed: read tcp POD-IP:8080: read: connection reset by peer`, [undefined], "×1"],
  ["unready-by-closed-port", `${READINESS} failed: Get "http://POD-IP:9/": ${timedOut}`, [undefined], "×1"],
  [
    "ready-by-redirect-elsewhere",
    `${READINESS} failed: Get "http://POD-IP:8080/cgi-bin/away": ${timedOut}`,
    [undefined],
    "×1",
  ],
  [
    "ready-by-exec",
    `${READINESS} errored and resulted in unknown state: rpc error: code = Canceled desc = context canceled`,
    ["×1"],
    "×3",
  ],
  [
    "claim-read-only",
    'event Warning FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC NAMESPACE/for-reader: failed to fetch PVC from API server: persistentvolumeclaims "for-reader" is forbidden: User "system:node:NODE" cannot get resource "persistentvolumeclaims" in API group "" in the namespace "NAMESPACE": no relationship found between node \'NODE\' and this object',
    [undefined],
    "×1",
  ],
  ["private-image", "event Warning Failed spec.containers{main}: Error: ErrImagePull", [undefined], "×1"],
];
for (const [pod, field, kubelet, berth] of shownByLiveKubelets)
  test(`the lists name ${berth} of a live kubelet for ${pod}: ${field}`, () => {
    expect(findUnrecorded([{ pod, field, kubelet, berth, kind: "difference" }], allEntries)).toEqual([]);
  });

/** What no list names. */
const wrong: readonly (readonly [
  pod: string,
  field: string,
  recorded: Finding["kubelet"],
  live: string | undefined,
])[] = [
  ["sidecar-in-back-off-at-the-end", "gone initContainerStatuses[side].lastState.terminated.exitCode", ["12"], "5"],
  // A pod that has not ended yet keeps its network.
  ["projected-volume-changes", "settled conditions[PodReadyToStartContainers].status", ["True"], "False"],
  ["fails", "gone times", ["in order"], "main has started before its pod"],
  ["unready-by-closed-port", `${READINESS} failed: Get "http://POD-IP:9/": ${timedOut}`, [undefined], "×2"],
  ["ready-by-exec", `${READINESS} failed: ${timedOut}`, [undefined], "×1"],
  ["private-image", "event Warning Failed spec.containers{main}: Error: ErrImagePull", [undefined], "×2"],
  ["sub-path-of-a-claim", "event Warning FailedMount: no relationship found", [undefined], "×1"],
];
for (const [pod, field, kubelet, berth] of wrong)
  test(`${berth} of a live kubelet for ${pod}: ${field} makes the recording stale`, () => {
    const live: Finding = { pod, field, kubelet, berth, kind: "difference" };
    expect(findUnrecorded([live], allEntries)).toEqual([live]);
  });
