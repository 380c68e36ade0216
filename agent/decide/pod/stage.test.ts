import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import { orphanTermination, type TerminationCause, terminationCauseOf } from "../termination/termination-cause.ts";
import type { DesiredPodView, Termination } from "./desired.ts";
import { emptyMemory, type PodMemory, type PodOutcome } from "./memory.ts";
import type { ObservedContainer, ObservedPod, ObservedSandbox } from "./observed.ts";
import { haveContainersStopped, type Stage, stageOf } from "./stage.ts";

const uid = "u" as PodUid;
const pod: Pod = { metadata: { uid, name: "web" }, spec: { containers: [], terminationGracePeriodSeconds: 30 } };
const outcome: PodOutcome = { phase: "Failed", reason: "DeadlineExceeded", at: 1_000 };
const deleted: Termination = { requestedAt: 2_000, gracePeriodSeconds: 60, why: "it was deleted" };
const desiredPod = (termination?: Termination): DesiredPodView => ({
  uid,
  pod,
  source: { kind: "api" },
  acceptedAt: 0,
  revision: 0,
  ...(termination && { termination }),
});

const endings: Readonly<Record<string, TerminationCause | undefined>> = {
  "it is wanted": terminationCauseOf(desiredPod(), undefined),
  "it has ended by itself": terminationCauseOf(desiredPod(), outcome),
  "it was removed": terminationCauseOf(desiredPod(deleted), undefined),
  "it was removed after it had completed": terminationCauseOf(desiredPod(deleted), outcome),
  "it has no source": orphanTermination(2_000),
};

const sandbox: ObservedSandbox = {
  id: "s" as SandboxId,
  attempt: 0,
  createdAt: 0,
  ready: true,
  ips: [],
  hostNetwork: false,
  crashes: 0,
};
const instance = (state: ObservedContainer["state"]) =>
  ({ id: "a" as ContainerId, name: "a", sandboxId: sandbox.id, state }) as ObservedContainer;
const all: ObservedPod = {
  ...emptyObservedPod(uid, "default", "web"),
  resources: [{ of: "podDirs" }, { of: "userIds" }, { of: "volume", name: "one" }, { of: "volume", name: "two" }],
};
const withoutVolumes: ObservedPod = { ...all, resources: [{ of: "podDirs" }, { of: "userIds" }] };
const withoutVolumesAndIds: ObservedPod = { ...all, resources: [{ of: "podDirs" }] };
const dead = { containers: [instance("exited")], sandboxes: [{ ...sandbox, ready: false }] };
const stopped: PodMemory = { ...emptyMemory, stoppedSandboxes: new Set([sandbox.id]) };

/** What is left of a terminating pod, in the order of its removal. */
const fixtures: readonly (readonly [left: string, observed: ObservedPod, memory: PodMemory])[] = [
  ["a container runs", { ...all, ...dead, containers: [instance("running")], sandboxes: [sandbox] }, emptyMemory],
  ["a container is in the unknown state", { ...all, ...dead, containers: [instance("unknown")] }, emptyMemory],
  ["a stop is in progress", { ...all, ...dead }, { ...emptyMemory, stopping: new Set(["a" as ContainerId]) }],
  [
    "a volume is being mounted",
    emptyObservedPod(uid, "default", "web"),
    { ...emptyMemory, mountingVolumes: new Set(["one"]) },
  ],
  ["a sandbox is ready", { ...all, ...dead, sandboxes: [sandbox] }, emptyMemory],
  ["a sandbox was never stopped", { ...all, ...dead }, emptyMemory],
  ["everything is stopped", { ...all, ...dead }, stopped],
  ["its volumes are gone", { ...withoutVolumes, ...dead }, stopped],
  ["its user ids are released", { ...withoutVolumesAndIds, ...dead }, stopped],
  ["its sandbox is gone, a container is not", { ...withoutVolumesAndIds, ...dead, sandboxes: [] }, stopped],
  ["only its files are left", withoutVolumesAndIds, emptyMemory],
  ["nothing is left", emptyObservedPod(uid, "default", "web"), emptyMemory],
];

const remainingOf = (stage: Extract<Stage, { readonly kind: "terminating" }>) =>
  stage.remaining === "resources"
    ? stage.resources.map((each) => (each.of === "volume" ? `volume ${each.name}` : each.of)).join(", ")
    : stage.remaining;
const show = (stage: Stage) =>
  `${stage.kind}${"remaining" in stage ? ` (${remainingOf(stage)})` : ""}${haveContainersStopped(stage) ? ", status final" : ""}`;

test("the stage of a pod follows from why it terminates and what is left of it", () => {
  const table = Object.entries(endings).flatMap(([why, ending]) => [
    `${why}:`,
    ...fixtures.map(([left, observed, memory]) => `  ${left}: ${show(stageOf(ending, observed, memory))}`),
  ]);
  expect(`\n${table.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    it is wanted:
      a container runs: syncing
      a container is in the unknown state: syncing
      a stop is in progress: syncing
      a volume is being mounted: syncing
      a sandbox is ready: syncing
      a sandbox was never stopped: syncing
      everything is stopped: syncing
      its volumes are gone: syncing
      its user ids are released: syncing
      its sandbox is gone, a container is not: syncing
      only its files are left: syncing
      nothing is left: syncing
    it has ended by itself:
      a container runs: terminating (containers)
      a container is in the unknown state: terminating (containers)
      a stop is in progress: terminating (stops), status final
      a volume is being mounted: terminating (stops), status final
      a sandbox is ready: terminating (networks), status final
      a sandbox was never stopped: terminating (networks), status final
      everything is stopped: terminating (volume one, volume two), status final
      its volumes are gone: terminating (userIds), status final
      its user ids are released: terminated, status final
      its sandbox is gone, a container is not: terminated, status final
      only its files are left: terminated, status final
      nothing is left: terminated, status final
    it was removed:
      a container runs: terminating (containers)
      a container is in the unknown state: terminating (containers)
      a stop is in progress: terminating (stops), status final
      a volume is being mounted: terminating (stops), status final
      a sandbox is ready: terminating (networks), status final
      a sandbox was never stopped: terminating (sandboxes), status final
      everything is stopped: terminating (sandboxes), status final
      its volumes are gone: terminating (sandboxes), status final
      its user ids are released: terminating (sandboxes), status final
      its sandbox is gone, a container is not: terminating (sandboxes), status final
      only its files are left: terminating (podDirs), status final
      nothing is left: finished, status final
    it was removed after it had completed:
      a container runs: terminating (containers)
      a container is in the unknown state: terminating (containers)
      a stop is in progress: terminating (stops), status final
      a volume is being mounted: terminating (stops), status final
      a sandbox is ready: terminating (networks), status final
      a sandbox was never stopped: terminating (sandboxes), status final
      everything is stopped: terminating (sandboxes), status final
      its volumes are gone: terminating (sandboxes), status final
      its user ids are released: terminating (sandboxes), status final
      its sandbox is gone, a container is not: terminating (sandboxes), status final
      only its files are left: terminating (podDirs), status final
      nothing is left: finished, status final
    it has no source:
      a container runs: terminating (containers)
      a container is in the unknown state: terminating (containers)
      a stop is in progress: terminating (stops), status final
      a volume is being mounted: terminating (stops), status final
      a sandbox is ready: terminating (networks), status final
      a sandbox was never stopped: terminating (sandboxes), status final
      everything is stopped: terminating (sandboxes), status final
      its volumes are gone: terminating (sandboxes), status final
      its user ids are released: terminating (sandboxes), status final
      its sandbox is gone, a container is not: terminating (sandboxes), status final
      only its files are left: terminating (podDirs), status final
      nothing is left: finished, status final
    "
  `);
});

test("a terminating pod never returns to an earlier stage as its parts are removed", () => {
  const order = [
    "containers",
    "stops",
    "networks",
    "volume",
    "userIds",
    "sandboxes",
    "podDirs",
    "terminated",
    "finished",
  ];
  const placeOf = (stage: Stage) =>
    order.indexOf("remaining" in stage ? (remainingOf(stage).split(" ")[0] ?? "") : stage.kind);
  for (const ending of Object.values(endings)) {
    if (ending === undefined) continue;
    const places = fixtures.map(([, observed, memory]) => placeOf(stageOf(ending, observed, memory)));
    expect(places).not.toContain(-1);
    // Only a completed pod stops its sandbox: for a removed pod the removal stops it.
    expect(places.toSorted((a, b) => a - b)).toEqual(places);
  }
});

const graces: readonly (readonly [sentence: string, Termination | undefined, PodOutcome | undefined, string])[] = [
  ["a desired pod does not terminate", undefined, undefined, "none"],
  ["a completed pod gets its own grace period, from its completion", undefined, outcome, "ended, 30 s from 1000"],
  ["a deleted pod gets the grace period of its deletion", deleted, undefined, "removed, 60 s from 2000"],
  ["a completed pod that is deleted gets no additional time", deleted, outcome, "removed, 30 s from 1000"],
  [
    "a completed pod that is deleted with a shorter grace period ends earlier",
    { ...deleted, gracePeriodSeconds: 1 },
    outcome,
    "removed, 1 s from 2000",
  ],
];
for (const [sentence, termination, itself, is] of graces)
  test(sentence, () => {
    const ending = terminationCauseOf(desiredPod(termination), itself);
    const shown = ending && `${ending.kind}, ${ending.gracePeriodSeconds} s from ${ending.requestedAt}`;
    expect(shown ?? "none").toBe(is);
  });
