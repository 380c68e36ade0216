import { expect, test } from "bun:test";
import type { PodUid } from "../../proto/ids.ts";
import { createSyncNotifier } from "./sync-subscriber.ts";

const uid = "web-1" as PodUid;

test("subscribers are called in their order, and those without the method are left out", () => {
  const calls: string[] = [];
  const { onPodFinished } = createSyncNotifier([
    { onPodFinished: () => calls.push("first") },
    {},
    { onPodFinished: (gone) => calls.push(`last: ${gone}`) },
  ]);
  onPodFinished(uid);
  expect(calls).toEqual(["first", "last: web-1"]);
});

test("an exception of a subscriber that no sync repeats is reported, and the subscribers behind it are called", () => {
  const calls: string[] = [];
  const fail = () => {
    throw new Error("a bug");
  };
  const { onActionStarted, onActionFinished, onPodFinished } = createSyncNotifier([
    { onActionStarted: fail, onActionFinished: fail, onPodFinished: fail },
    {
      onActionStarted: () => calls.push("started"),
      onActionFinished: () => calls.push("finished"),
      onPodFinished: () => calls.push("gone"),
      onSyncFailed: (failed, error) => calls.push(`${failed}: ${error}`),
    },
  ]);
  const started = {
    uid,
    pod: "shop/web",
    action: { kind: "runSandbox", attempt: 0, crashes: 0, why: "w" },
    startedAt: 0,
  } as const;
  onActionStarted(started);
  onActionFinished({ ...started, endedAt: 1, result: { ok: true } });
  onPodFinished(uid);
  const failed = "web-1: Error: a bug";
  expect(calls).toEqual([failed, "started", failed, "finished", failed, "gone"]);
});
