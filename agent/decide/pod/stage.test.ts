import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredNow, Termination } from "./desired.ts";
import { emptyMemory, type Outcome, type PodMemory } from "./memory.ts";
import { nothingObserved, type ObservedContainer, type ObservedPod, type ObservedSandbox } from "./observed.ts";
import { type Ending, endingOf, isFinal, orphanEnding, type Stage, stageOf } from "./stage.ts";

const uid = "u" as PodUid;
const pod: Pod = { metadata: { uid, name: "web" }, spec: { containers: [], terminationGracePeriodSeconds: 30 } };
const outcome: Outcome = { phase: "Failed", reason: "DeadlineExceeded", at: 1_000 };
const deleted: Termination = { requestedAt: 2_000, gracePeriodSeconds: 60, why: "it was deleted" };
const wanted = (termination?: Termination): DesiredNow => ({
  uid,
  pod,
  source: { kind: "api" },
  acceptedAt: 0,
  revision: 0,
  ...(termination && { termination }),
});

const endings: Readonly<Record<string, Ending | undefined>> = {
  "it is wanted": endingOf(wanted(), undefined),
  "it has ended by itself": endingOf(wanted(), outcome),
  "it was taken away": endingOf(wanted(deleted), undefined),
  "it was taken away after its end": endingOf(wanted(deleted), outcome),
  "nobody asks for it": orphanEnding(2_000),
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
const all: ObservedPod = { ...nothingObserved(uid, "default", "web"), hasFiles: true, hasVolumes: true, hasIds: true };
const freed = { ...all, hasVolumes: false, hasIds: false };
const dead = { containers: [instance("exited")], sandboxes: [{ ...sandbox, ready: false }] };
const stopped: PodMemory = { ...emptyMemory, stoppedSandboxes: new Set([sandbox.id]) };

/** What is left of a pod that ends, in the order in which it goes. */
const scenes: readonly (readonly [left: string, observed: ObservedPod, memory: PodMemory])[] = [
  ["a container runs", { ...all, ...dead, containers: [instance("running")], sandboxes: [sandbox] }, emptyMemory],
  ["nobody knows whether one does", { ...all, ...dead, containers: [instance("unknown")] }, emptyMemory],
  ["a stop is under way", { ...all, ...dead }, { ...emptyMemory, stopping: new Set(["a" as ContainerId]) }],
  ["a sandbox is ready", { ...all, ...dead, sandboxes: [sandbox] }, emptyMemory],
  ["a sandbox was never stopped", { ...all, ...dead }, emptyMemory],
  ["all is dead", { ...all, ...dead }, stopped],
  ["its volumes are gone", { ...all, ...dead, hasVolumes: false }, stopped],
  ["its ids are free again", { ...freed, ...dead }, stopped],
  ["its sandbox is gone, a container is not", { ...freed, ...dead, sandboxes: [] }, stopped],
  ["only its files are left", freed, emptyMemory],
  ["nothing is left", nothingObserved(uid, "default", "web"), emptyMemory],
];

const show = (stage: Stage) =>
  `${stage.kind}${"left" in stage ? ` (${stage.left})` : ""}${isFinal(stage) ? ", its last word" : ""}`;

test("the stage of a pod follows from why it ends, and from what is left of it", () => {
  const table = Object.entries(endings).flatMap(([why, ending]) => [
    `${why}:`,
    ...scenes.map(([left, observed, memory]) => `  ${left}: ${show(stageOf(ending, observed, memory))}`),
  ]);
  expect(`\n${table.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    it is wanted:
      a container runs: syncing
      nobody knows whether one does: syncing
      a stop is under way: syncing
      a sandbox is ready: syncing
      a sandbox was never stopped: syncing
      all is dead: syncing
      its volumes are gone: syncing
      its ids are free again: syncing
      its sandbox is gone, a container is not: syncing
      only its files are left: syncing
      nothing is left: syncing
    it has ended by itself:
      a container runs: terminating (containers)
      nobody knows whether one does: terminating (containers)
      a stop is under way: terminating (stops), its last word
      a sandbox is ready: terminating (networks), its last word
      a sandbox was never stopped: terminating (networks), its last word
      all is dead: terminating (volumes), its last word
      its volumes are gone: terminating (ids), its last word
      its ids are free again: terminated, its last word
      its sandbox is gone, a container is not: terminated, its last word
      only its files are left: terminated, its last word
      nothing is left: terminated, its last word
    it was taken away:
      a container runs: terminating (containers)
      nobody knows whether one does: terminating (containers)
      a stop is under way: terminating (stops), its last word
      a sandbox is ready: terminating (networks), its last word
      a sandbox was never stopped: terminating (sandboxes), its last word
      all is dead: terminating (sandboxes), its last word
      its volumes are gone: terminating (sandboxes), its last word
      its ids are free again: terminating (sandboxes), its last word
      its sandbox is gone, a container is not: terminating (sandboxes), its last word
      only its files are left: terminating (files), its last word
      nothing is left: finished, its last word
    it was taken away after its end:
      a container runs: terminating (containers)
      nobody knows whether one does: terminating (containers)
      a stop is under way: terminating (stops), its last word
      a sandbox is ready: terminating (networks), its last word
      a sandbox was never stopped: terminating (sandboxes), its last word
      all is dead: terminating (sandboxes), its last word
      its volumes are gone: terminating (sandboxes), its last word
      its ids are free again: terminating (sandboxes), its last word
      its sandbox is gone, a container is not: terminating (sandboxes), its last word
      only its files are left: terminating (files), its last word
      nothing is left: finished, its last word
    nobody asks for it:
      a container runs: terminating (containers)
      nobody knows whether one does: terminating (containers)
      a stop is under way: terminating (stops), its last word
      a sandbox is ready: terminating (networks), its last word
      a sandbox was never stopped: terminating (sandboxes), its last word
      all is dead: terminating (sandboxes), its last word
      its volumes are gone: terminating (sandboxes), its last word
      its ids are free again: terminating (sandboxes), its last word
      its sandbox is gone, a container is not: terminating (sandboxes), its last word
      only its files are left: terminating (files), its last word
      nothing is left: finished, its last word
    "
  `);
});

test("as what is left gets less, a pod that ends never goes back", () => {
  const order = ["containers", "stops", "networks", "volumes", "ids", "sandboxes", "files", "terminated", "finished"];
  const placeOf = (stage: Stage) => order.indexOf("left" in stage ? stage.left : stage.kind);
  for (const ending of Object.values(endings)) {
    if (ending === undefined) continue;
    const places = scenes.map(([, observed, memory]) => placeOf(stageOf(ending, observed, memory)));
    expect(places).not.toContain(-1);
    // The sandbox that was never stopped has a network only for a pod that ends by itself: removing it stops it.
    expect(places.toSorted((a, b) => a - b)).toEqual(places);
  }
});

const graces: readonly (readonly [sentence: string, Termination | undefined, Outcome | undefined, string])[] = [
  ["a pod that is wanted has no end", undefined, undefined, "none"],
  ["one that ends by itself has the pod's own grace from then on", undefined, outcome, "ended, 30 s from 1000"],
  ["one that is deleted has what its deletion grants", deleted, undefined, "removed, 60 s from 2000"],
  [
    "one that is deleted while it ends by itself gets no more time by that",
    deleted,
    outcome,
    "removed, 30 s from 1000",
  ],
  [
    "and less, where its deletion grants less",
    { ...deleted, gracePeriodSeconds: 1 },
    outcome,
    "removed, 1 s from 2000",
  ],
];
for (const [sentence, termination, itself, is] of graces)
  test(sentence, () => {
    const ending = endingOf(wanted(termination), itself);
    const shown = ending && `${ending.kind}, ${ending.gracePeriodSeconds} s from ${ending.requestedAt}`;
    expect(shown ?? "none").toBe(is);
  });
