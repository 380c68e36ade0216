import { expect, test } from "bun:test";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import type { Action } from "./action.ts";
import type { ActionResult } from "./memory.ts";
import { type Timeline, withAction } from "./timeline.ts";

const failure: ActionResult = { ok: false, reason: "ErrImagePull", message: "not found", isOutage: false };
const pull: Action = { kind: "pullImage", image: "web:1", why: "it is missing" };
const create = (attempt: number): Action =>
  ({
    ...({
      kind: "createContainer",
      name: "main",
      attempt,
      sandboxId: "s",
      podIPs: [],
      image: "web:1",
    } as never as object),
    ...{ imageRef: "web:1", crashes: 0, why: "it does not exist" },
  }) as Action;

/** Applies actions, each of 100 ms, that began at these seconds. */
function apply(
  ...actions: readonly (readonly [second: number, action: Action, result?: ActionResult | "cancelled"])[]
) {
  return actions.reduce<Timeline>(
    (timeline, [second, action, result = { ok: true }]) =>
      withAction(timeline, {
        ...{ uid: "u" as PodUid, pod: "default/web", action, result },
        ...{ startedAt: second * 1000, endedAt: second * 1000 + 100 },
      }),
    new Map(),
  );
}

test("a step that fails has its reason, how often it failed in a row, and when it is tried again", () => {
  const [step] = apply([0, pull, failure], [10, pull, failure]).values();
  expect(step).toEqual({
    what: "pull image web:1: it is missing",
    firstAt: 0,
    at: 10_000,
    ms: 100,
    times: 2,
    failure: { reason: "ErrImagePull", message: "not found", times: 2, retryAt: 30_100 },
  });
});

test("a success clears the failure, and a later failure starts a new count", () => {
  const succeeded = apply([0, pull, failure], [10, pull]);
  expect([...succeeded.values()][0]?.failure).toBeUndefined();
  const [step] = apply([0, pull, failure], [10, pull], [20, pull, failure]).values();
  expect(step?.failure?.times).toBe(1);
  expect(step?.times).toBe(3);
});

test("of the attempts of a container the first and the latest are kept, each with its own times", () => {
  const steps = [...apply([0, create(0)], [20, create(1)], [60, create(2), failure], [70, create(2)]).values()];
  expect(steps).toEqual([
    {
      ...{ what: "create container main (attempt 2): it does not exist", container: "main", attempt: 2 },
      ...{ times: 2, firstAt: 60_000, at: 70_000, ms: 100 },
      ofFirstAttempt: {
        ...{ what: "create container main (attempt 0): it does not exist", container: "main", attempt: 0 },
        ...{ times: 1, firstAt: 0, at: 0, ms: 100 },
      },
    },
  ]);
});

test("failures in a row are counted over the attempts", () => {
  const [step] = apply([0, create(0), failure], [20, create(1), failure]).values();
  expect([step?.times, step?.failure?.times]).toEqual([1, 2]);
});

test("cancelled actions and removals are no steps", () => {
  const remove: Action = { kind: "removeContainer", name: "main", id: "c" as ContainerId, why: "it has ended" };
  expect(apply([0, pull, "cancelled"], [1, remove]).size).toBe(0);
});

test("a pod with many volumes does not grow the timeline without bound", () => {
  const volumes = Array.from({ length: 200 }, (_, index) => {
    const action: Action = { kind: "makeResource", resource: { of: "volume", name: `v${index}` } };
    return [index, action] as const;
  });
  expect(apply(...volumes).size).toBe(64);
});
