import { expect, test } from "bun:test";
import type { ContainerId } from "../../../proto/ids.ts";
import type { ContainerStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import type { ObservedContainer, ObservedPod } from "../pod/observed.ts";
import { previousStatusOf } from "../status/previous-status.ts";
import { takesExitBack, UNCONFIRMED_EXIT_MS, withUnconfirmedExits } from "./unconfirmed-exits.ts";

const FINISHED = Date.parse("2026-01-01T00:00:10Z");
const NOW = FINISHED + 2_000;
const running = { id: "c1" as ContainerId, name: "a", state: "running", startedAt: FINISHED - 5_000 };
const end = { exitCode: 3, reason: "Error", finishedAt: formatTime(FINISHED), containerID: "containerd://c1" };
const ended: ContainerStatus = {
  name: "a",
  state: { terminated: end },
  ready: false,
  restartCount: 0,
  image: "busybox:1",
  imageID: "",
};

/** How the container counts, by the state that the runtime shows and the status that the API server has. */
function stateBy(reported: ContainerStatus | undefined, { now = NOW, shown = running as object } = {}): unknown {
  const { observed, countsUntil } = withUnconfirmedExits(
    previousStatusOf({ status: reported === undefined ? {} : { containerStatuses: [reported] } }),
    { containers: [shown as ObservedContainer] } as unknown as ObservedPod,
    now,
  );
  const [container] = observed.containers;
  expect(observed.hasUnconfirmedExit === true).toBe(countsUntil !== undefined);
  return container?.state === "exited" ? `${container.reason} ${container.exitCode}` : container?.state;
}

test("a running container counts as exited if the API server has the exit of this instance", () => {
  expect(stateBy(ended)).toBe("Error 3");
});

test("so it does if it waits for its restart there", () => {
  expect(stateBy({ ...ended, state: { waiting: {} }, lastState: { terminated: end } })).toBe("Error 3");
});

const rows: readonly [
  sentence: string,
  reported: ContainerStatus | undefined,
  more?: { now?: number; shown?: object },
][] = [
  ["there is no status", undefined],
  ["the status shows it running", { ...ended, state: { running: {} } }],
  ["the exit is that of another instance", ended, { shown: { ...running, id: "c2" } }],
  ["the exit is older than the status is read again", ended, { now: FINISHED + UNCONFIRMED_EXIT_MS }],
  ["the exit is in the future by this node's clock", ended, { now: FINISHED - 1 }],
  ["the exit has no time", { ...ended, state: { terminated: { exitCode: 3, containerID: "containerd://c1" } } }],
];
for (const [sentence, reported, more] of rows)
  test(`a running container counts as running if ${sentence}`, () => {
    expect(stateBy(reported, more)).toBe("running");
  });

test("the exit that the runtime shows wins over the one that the API server has", () => {
  const shown = { ...running, state: "exited", exitCode: 0, reason: "Completed", finishedAt: FINISHED };
  expect(stateBy(ended, { shown })).toBe("Completed 0");
});

test("the exit counts until the runtime's status would not be read again any more", () => {
  const status = { containerStatuses: [ended] };
  const observed = { containers: [running] } as unknown as ObservedPod;
  expect(withUnconfirmedExits(previousStatusOf({ status }), observed, NOW).countsUntil).toBe(
    FINISHED + UNCONFIRMED_EXIT_MS,
  );
});

/** Whether the status of the container with the state `decided` is sent over the reported one. */
const isSent = (reported: ContainerStatus, decided: Partial<ContainerStatus>, now = NOW) => {
  const status = { ...ended, containerID: "containerd://c1", ...decided };
  return !takesExitBack({ containerStatuses: [reported] }, { containerStatuses: [status] }, now);
};

test("a status that takes a recent exit back is not sent", () => {
  expect(isSent(ended, { state: { running: {} } })).toBe(false);
  expect(isSent({ ...ended, state: { waiting: {} }, lastState: { terminated: end } }, { state: { running: {} } })).toBe(
    false,
  );
});

test("a status is sent if it has the exit, shows a later instance, or the exit is old", () => {
  expect(isSent(ended, {})).toBe(true);
  expect(isSent(ended, { state: { running: {} }, containerID: "containerd://c2", restartCount: 1 })).toBe(true);
  expect(isSent(ended, { state: { running: {} } }, FINISHED + UNCONFIRMED_EXIT_MS)).toBe(true);
});
