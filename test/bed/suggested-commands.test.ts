import { expect, test } from "bun:test";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { ContainerState } from "../../proto/kubernetes/gen/types.ts";
import { suggestCommands } from "./suggested-commands.ts";

const pod = (name: string, state?: ContainerState, other: Partial<PodSummary> = {}): PodSummary => ({
  ...{ namespace: "default", name, uid: name, phase: "Running", reason: "", message: "", ready: "1/1", restarts: 0 },
  ...{ ip: "", startTime: "", steps: [] },
  status: state === undefined ? {} : { containerStatuses: [containerStatus(state)] },
  ...other,
});
const containerStatus = (state: ContainerState) =>
  ({ name: "main", image: "", imageID: "", ready: true, restartCount: 0, state }) as const;
const running: ContainerState = { running: { startedAt: "2026-01-01T00:00:00Z" } };
const completed: ContainerState = { terminated: { exitCode: 0, reason: "Completed" } };
const crashing: ContainerState = { waiting: { reason: "CrashLoopBackOff" } };
const rejected = { phase: "Failed", reason: "OutOfcpu", ready: "0/1" };

const suggest = (...pods: readonly PodSummary[]) =>
  suggestCommands({ pods }, "dist/berth", "state/kubelet").map(({ title, command }) => `${title}: ${command}`);

const SHOW_PODS = "show pods: dist/berth pods --root-dir state/kubelet";

test("each command is shown with the example that is made for it", () => {
  const crash = pod("crash-berth", crashing, { reason: "CrashLoopBackOff" });
  const once = pod("once-berth", completed, { reason: "Completed", phase: "Succeeded" });
  expect(suggest(pod("a-berth", running), once, crash, pod("web-berth", running))).toEqual([
    SHOW_PODS,
    "explain: dist/berth explain crash-berth --root-dir state/kubelet",
    "read logs: dist/berth logs once-berth --root-dir state/kubelet",
    "look inside: dist/berth exec web-berth --root-dir state/kubelet -it -- sh",
  ]);
});

test("no command opens a shell in a pod that the node has rejected", () => {
  expect(suggest(pod("web-berth", undefined, rejected))).toEqual([
    SHOW_PODS,
    "explain: dist/berth explain web-berth --root-dir state/kubelet",
  ]);
  const other = pod("other-berth", running, { namespace: "shop" });
  expect(suggest(pod("web-berth", undefined, rejected), other)).toEqual([
    SHOW_PODS,
    "explain: dist/berth explain web-berth --root-dir state/kubelet",
    "read logs: dist/berth logs other-berth -n shop --root-dir state/kubelet",
    "look inside: dist/berth exec other-berth -n shop --root-dir state/kubelet -it -- sh",
  ]);
});

test("without pods only their list is suggested", () => {
  expect(suggest()).toEqual([SHOW_PODS]);
});
