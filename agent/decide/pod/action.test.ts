import { expect, test } from "bun:test";
import type { PodUid } from "../../../proto/ids.ts";
import { exampleActions } from "../../../test/fakes/example-actions.ts";
import { createKeyMap } from "../actions/key-map.ts";
import { type Action, actionKeyOf, actionRecords, describe, failureKeyOf, recordOf } from "./action.ts";
import { clearInProgress, recordDequeued, recordResult, recordStarted } from "./action-memory.ts";
import { emptyMemory } from "./memory.ts";

const uid = "u" as PodUid;
const failure = { reason: "Reason", message: "message", isOutage: false };

/** Per kind: class, reason, sentence, failure key; events at start, success and failure; the timing step. */
const summaryOf = (action: Action) => {
  const record = recordOf(action);
  const eventInput = { pod: undefined, pulledImages: new Set<string>(), isImageAccessVerified: false };
  const result = { ok: true, plainHttpHost: "host" } as const;
  const success = { pod: undefined, result, startedAt: 0, endedAt: 0, imageSizeBytes: undefined };
  const events = [
    record.eventsAtStart?.(action, eventInput),
    record.eventsAtSuccess?.(action, success),
    record.eventsAtFailure?.(action, { pod: undefined, uid, ...failure }),
  ].map((each) => each?.map(({ reason }) => reason).join("+") ?? "");
  const { container, what } = record.timingStep?.(action) ?? { what: "-" };
  return [
    `${record.actionClass} ${record.failure(action).reason}: ${describe(action)}`,
    JSON.stringify(failureKeyOf(action)),
    events.join(" | "),
    [what, container].join(" ").trim(),
  ].join(" / ");
};

test("each kind has a class, a reason, a sentence, a failure key, its events and its step", () => {
  expect(Object.keys(exampleActions).toSorted()).toEqual(Object.keys(actionRecords).toSorted());
  expect(Object.values(exampleActions).map(summaryOf)).toMatchInlineSnapshot(`
    [
      "start FailedMount: set up volume v / {"of":"resource","resource":{"of":"volume","name":"v"}} /  |  | FailedMount / volumes",
      "background FailedMount: set up volume v / {"of":"resource","resource":{"of":"volume","name":"v"}} /  |  | FailedMount / volumes",
      "update FailedMount: update volume v: why / {"of":"volumeUpdate","name":"v"} /  |  | FailedMount / -",
      "update FailedCreatePodContainer: write cpu.weight 1 to the pod's cgroup: why / {"of":"podCgroupWrite"} /  |  | Reason / -",
      "background ErrImagePull: pull image i: why / {"of":"image","image":"i"} / Pulling | Pulled | Failed+Failed / pull",
      "start CreatePodSandboxError: run sandbox (attempt 1): why / {"of":"sandbox"} / SandboxChanged |  | FailedCreatePodSandBox / sandbox",
      "start CreateContainerError: create container a (attempt 0): why / {"of":"container","name":"a"} / Pulled | Created | Failed / create a",
      "start RunContainerError: start container a (attempt 0) / {"of":"container","name":"a"} /  | Started | Failed / start a",
      "background PostStartHookError: run the postStart hook of container a (attempt 0) / {"of":"postStart","id":"c"} /  | LifecycleHTTPFallback | FailedPostStartHook / postStart a",
      "stop KillContainerError: run the preStop hook of container a within 1s: why / {"of":"endOfContainer","id":"c"} / Killing | LifecycleHTTPFallback | FailedKillPod / -",
      "stop KillContainerError: stop container a within 1s: why / {"of":"endOfContainer","id":"c"} / Killing | LifecycleHTTPFallback | FailedKillPod / -",
      "end RemoveContainerError: remove container a: why / {"of":"endOfContainer","id":"c"} /  |  |  / -",
      "update ResizePodInPlaceError: update container a: memory request -, limit -; cpu request 100m, limit - / {"of":"containerResources","id":"c"} /  |  |  / -",
      "update ResizePodInPlaceError: update pod sandbox resources: memory.max max, cpu.weight 1, cpu.max max 100000 / {"of":"sandboxResources","id":"s"} /  |  |  / -",
      "end KillPodSandboxError: stop sandbox: why / {"of":"endOfSandbox","id":"s"} /  |  | FailedKillPod / -",
      "end KillPodSandboxError: remove sandbox: why / {"of":"endOfSandbox","id":"s"} /  |  |  / -",
      "end FailedCleanup: remove the pod's files: why / {"of":"endOfResource","resource":{"of":"podDirs"}} /  |  |  / -",
    ]
  `);
});

for (const action of Object.values(exampleActions)) {
  test(`the memory has no trace of a cancelled ${action.kind}`, () => {
    const started = recordDequeued(recordStarted(emptyMemory, action, 1), action, 2);
    expect(recordOf(action).isInProgress?.(started, action) ?? true).toBe(true);
    const { failures: _, ...cancelled } = clearInProgress(started, action);
    const { failures: __, ...empty } = emptyMemory;
    expect(cancelled).toEqual(empty);
  });

  test(`a failed ${action.kind} is counted, and a success clears the count unless the record says otherwise`, () => {
    const failed = recordResult(recordStarted(emptyMemory, action, 1), action, { ok: false, ...failure }, 5);
    expect(failed.failures.get(failureKeyOf(action))).toEqual({ ...failure, at: 5, count: 1 });
    const succeeded = recordResult(failed, action, { ok: true }, 6);
    expect(succeeded.failures.size).toBe(recordOf(action).failure(action).isKeptBySuccess ? 1 : 0);
  });
}

test("two actions are the same whatever their reason and grace period, and differ by their attempt", () => {
  const { stopContainer, startContainer, stopSandbox, removeSandbox } = exampleActions;
  const isSame = (one: Action, other: Action) => createKeyMap([[actionKeyOf(one), 1]]).has(actionKeyOf(other));
  expect(isSame(stopContainer, { ...stopContainer, why: "another", gracePeriodSeconds: 9 })).toBe(true);
  expect(isSame(startContainer, { ...startContainer, attempt: 1 })).toBe(false);
  expect(isSame(stopSandbox, removeSandbox)).toBe(false);
});
