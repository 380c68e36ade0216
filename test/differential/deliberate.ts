import type { Deliberate } from "./compare.ts";
import { ORDER } from "./rows.ts";

const times = /^×\d+$/;
const anything = /^/;

/** What Berth does otherwise than the kubelet on purpose, and why. An entry that nothing is found for any more fails the suite. */
export const deliberate: readonly Deliberate[] = [
  {
    pod: /./,
    field:
      /^event (Normal|Warning) (BackOff|Failed|InspectFailed|ErrImageNeverPull|Pulling|Pulled|DNSConfigForming|DeadlineExceeded|FailedMount|FailedCreatePodSandBox)\b/,
    kubelet: times,
    berth: times,
    reason:
      "the kubelet tells it at each of its looks while nothing changes, or when a look is late; Berth when it happens, and tries again after other delays (decisions 6 and 7)",
  },
  {
    pod: /-loop$|-crashes$/,
    field: /^later containerStatuses\[\w+\]\.(state|lastState|restartCount)/,
    kubelet: anything,
    berth: anything,
    reason:
      "that a container waits for its restart is shown while it waits; the kubelet shows it at its next look, when the wait is over",
  },
  {
    pod: /^deadline/,
    field: ORDER,
    kubelet: anything,
    berth: anything,
    reason: "that a pod has run too long is told when its status says so, which is when its containers have stopped",
  },
  {
    pod: /-loop$|-crashes$/,
    field: /^gone containerStatuses\[\w+\]\.lastState\./,
    kubelet: /./,
    reason:
      "of the instances that have ended one is kept, at once; the kubelet removes the others when a minute has passed",
  },
  {
    pod: /./,
    field: /^(settled|gone) conditions\[PodReadyToStartContainers\]\.status$/,
    kubelet: "True",
    berth: "False",
    reason: "a pod that has ended has no network any more; whether the kubelet says so depends on when it looked last",
  },
  {
    pod: /^static/,
    field: /^gone /,
    kubelet: anything,
    berth: anything,
    reason:
      "the mirror of a static pod that is taken away shows how the pod has ended before it goes; the kubelet's goes at once",
  },
  {
    pod: /^host-path-no-|unknown-handler$/,
    field: /waiting\.message$/,
    berth: /^(MountVolume\.SetUp failed|Failed to create pod sandbox)/,
    reason: "a container that waits says for what",
  },
  {
    pod: /^host-path-no-/,
    field: /^event Warning FailedMount: .* is not a/,
    kubelet: anything,
    berth: anything,
    reason: "what is there instead is said behind the kubelet's words",
  },
  {
    pod: /./,
    field: /^(settled|gone) (allocatedResources|resources)\./,
    kubelet: /./,
    reason: "resources of a pod as a whole (beta) come with their resize",
  },
];
