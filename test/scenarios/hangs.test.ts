import { expect } from "bun:test";
import { scenario } from "./scenario.ts";
import { makePod, type Stage } from "./stage.ts";

scenario(
  "a runtime that hangs is given up at the deadline and tried again",
  {
    before: (stage) => {
      const resume = stage.runtime.hang("createContainer");
      stage.clock.wakeAt(stage.clock.now() + 200_000, resume);
    },
    async run(stage) {
      await stage.offer(makePod("web"));
      await stage.advance("10m");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report web Pending: a waiting ContainerCreating
      0s web: prepare volumes
      0s web: run sandbox (attempt 0): the pod has none
      120s web: failed to create container a (attempt 0): it has not run yet: createContainer: no answer within 120000 ms
      120s report web Pending: a waiting CreateContainerError
      200s web: create container a (attempt 0): it has not run yet
      200s web: start container a (attempt 0)
      200s report web Running, ready: a running"
    `);
  },
);

scenario(
  "starts that hang give their places to others after ten seconds",
  {
    options: { startPlaces: 2 },
    before: (stage) => {
      let isStuck = true;
      const stuck = Promise.withResolvers<void>();
      stage.runtime.before.runPodSandbox = (about) => (isStuck && /stuck/.test(about) ? stuck.promise : undefined);
      stage.clock.wakeAt(stage.clock.now() + 30_000, () => {
        isStuck = false;
        stuck.resolve();
      });
    },
    async run(stage) {
      await stage.offer(makePod("stuck-1"), makePod("stuck-2"), makePod("web"));
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(story).toMatchInlineSnapshot(`
      "0s following the container runtime
      0s report stuck-1 Pending: a waiting ContainerCreating
      0s report stuck-2 Pending: a waiting ContainerCreating
      0s report web Pending: a waiting ContainerCreating
      0s stuck-1: prepare volumes
      0s stuck-2: prepare volumes
      10s web: prepare volumes
      10s web: run sandbox (attempt 0): the pod has none
      10s web: create container a (attempt 0): it has not run yet
      10s web: start container a (attempt 0)
      10s report web Running, ready: a running
      30s stuck-1: run sandbox (attempt 0): the pod has none
      30s stuck-2: run sandbox (attempt 0): the pod has none
      30s stuck-1: create container a (attempt 0): it has not run yet
      30s stuck-2: create container a (attempt 0): it has not run yet
      30s stuck-1: start container a (attempt 0)
      30s stuck-2: start container a (attempt 0)
      30s report stuck-1 Running, ready: a running
      30s report stuck-2 Running, ready: a running"
    `);
  },
);

/** The lines in which the word is, where the others tell nothing that other plays do not. */
const linesOf = (story: string, word: string) =>
  story
    .split("\n")
    .filter((line) => line.includes(word))
    .join("\n");

/** Calls of the verb hang for the first thirty seconds where they are about a pod whose name begins with `stuck`. */
function hangStuckSandboxes(stage: Stage, verb: "stopPodSandbox" | "removePodSandbox"): void {
  const nameOf = (about: string) =>
    [...stage.runtime.sandboxes.values()].find(({ id }) => id === about)?.config.metadata?.name ?? "";
  const resumed = Promise.withResolvers<void>();
  stage.runtime.before[verb] = (about) => (nameOf(about).startsWith("stuck") ? resumed.promise : undefined);
  stage.clock.wakeAt(stage.clock.now() + 30_000, () => {
    delete stage.runtime.before[verb];
    resumed.resolve();
  });
}

const stuckPods = [1, 2, 3, 4].map((number) => makePod(`stuck-${number}`));

scenario(
  "teardowns that hang give their places to others after ten seconds",
  {
    before: (stage) => hangStuckSandboxes(stage, "stopPodSandbox"),
    async run(stage) {
      await stage.offer(...stuckPods, makePod("web"));
      stage.told();
      await stage.offer();
      await stage.advance("60s");
    },
  },
  (story) => {
    expect(linesOf(story, "sandbox")).toMatchInlineSnapshot(`
      "10s web: stop sandbox: its manifest is gone
      10s web: remove sandbox: its manifest is gone
      30s stuck-1: stop sandbox: its manifest is gone
      30s stuck-2: stop sandbox: its manifest is gone
      30s stuck-3: stop sandbox: its manifest is gone
      30s stuck-4: stop sandbox: its manifest is gone
      30s stuck-1: remove sandbox: its manifest is gone
      30s stuck-2: remove sandbox: its manifest is gone
      30s stuck-3: remove sandbox: its manifest is gone
      30s stuck-4: remove sandbox: its manifest is gone"
    `);
  },
);
