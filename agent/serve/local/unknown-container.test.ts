import { expect, test } from "bun:test";
import type { ContainerState, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { notRunningText } from "./unknown-container.ts";

const podIn = (state: ContainerState | undefined): Pod => ({
  metadata: { name: "web" },
  spec: { initContainers: [{ name: "init" }], containers: [{ name: "main" }] },
  status: {
    containerStatuses: [
      { ...{ name: "main", image: "", imageID: "", ready: false, restartCount: 0 }, ...(state && { state }) },
    ],
  },
});

test.each([
  [
    "main",
    { terminated: { exitCode: 3 } },
    'container "main" of pod "web" does not run: it has ended with exit code 3',
  ],
  ["main", { waiting: { reason: "CrashLoopBackOff" } }, 'container "main" of pod "web" does not run: CrashLoopBackOff'],
  ["main", undefined, 'container "main" of pod "web" does not run'],
  ["init", undefined, 'container "init" of pod "web" does not run'],
  ["nope", undefined, 'container "nope" not found in pod "web"; it has init and main'],
] as const)("why no command runs in %s in the state %p", (container, state, text) => {
  expect(notRunningText(podIn(state), container)).toBe(text);
});
