import { expect, test } from "bun:test";
import type { ContainerChange } from "../../../cri/runtime.ts";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import type { ObservedContainer, ObservedSandbox } from "../../decide/pod/observed.ts";
import { hasStopped, isNewChange } from "./event-is-new.ts";

const identity = {
  id: "c" as ContainerId,
  name: "a",
  sandboxId: "s" as SandboxId,
  attempt: 0,
  createdAt: 1,
  image: "i",
  imageRef: "r",
  hash: "h",
  crashes: 0,
};
const exit = { startedAt: 1, finishedAt: 2, exitCode: 0, reason: "", message: "" };
const sandbox = { id: "s" as SandboxId, attempt: 0, createdAt: 1, ips: [], hostNetwork: false, crashes: 0 };
const known: Readonly<Record<string, ObservedContainer | ObservedSandbox | undefined>> = {
  "nothing known": undefined,
  "a created container": { ...identity, state: "created" },
  "a running container": { ...identity, state: "running", startedAt: 1 },
  "an exited container": { ...identity, ...exit, state: "exited" },
  "a container of unknown state": { ...identity, state: "unknown" },
  "a ready sandbox": { ...sandbox, ready: true },
  "a sandbox that is not ready": { ...sandbox, ready: false },
};

/** For each state, the changes that report something new; the others are known. */
const update: Readonly<Record<string, readonly ContainerChange[]>> = {
  "nothing known": ["created", "started", "stopped", "unknown"],
  "a created container": ["started", "stopped", "deleted", "unknown"],
  "a running container": ["stopped", "deleted", "unknown"],
  "an exited container": ["deleted", "unknown"],
  "a container of unknown state": ["started", "stopped", "deleted", "unknown"],
  "a ready sandbox": ["stopped", "deleted", "unknown"],
  "a sandbox that is not ready": ["deleted", "unknown"],
};
for (const [state, thing] of Object.entries(known))
  for (const change of ["created", "started", "stopped", "deleted", "unknown"] as const) {
    const isOne = update[state]?.includes(change) === true;
    test(`with ${state}, ${change} is ${isOne ? "new" : "known already"}`, () => {
      expect(isNewChange({ change }, thing)).toBe(isOne);
    });
  }

test("only an exited container and a sandbox that is not ready count as stopped", () => {
  const ended = Object.entries(known).filter(([, thing]) => thing !== undefined && hasStopped(thing));
  expect(ended.map(([state]) => state)).toEqual(["an exited container", "a sandbox that is not ready"]);
});
