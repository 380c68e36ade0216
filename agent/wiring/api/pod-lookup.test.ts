import { expect, test } from "bun:test";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { createPodLookup } from "./pod-lookup.ts";

const podOf = (name: string, uid: string): Pod => ({
  metadata: { namespace: "shop", name, uid },
  spec: { containers: [] },
  status: { phase: "Pending" },
});

function lookup(
  desired: readonly { pod: Pod; isEnding?: boolean }[],
  reported: readonly { pod: Pod; status: PodStatus }[],
) {
  const all = desired.map(({ pod, isEnding = false }) => ({
    pod,
    uid: pod.metadata.uid,
    termination: isEnding ? { source: "api" } : undefined,
  }));
  return createPodLookup({
    desired: { all: () => all } as never,
    podReports: { all: () => reported } as never,
  });
}

test("a pod has the status that the agent has decided, and the API server's before it has", () => {
  const [web, api] = [podOf("web", "u-1"), podOf("api", "u-2")];
  const pods = lookup([{ pod: web }, { pod: api }], [{ pod: web, status: { phase: "Running" } }]);
  expect(pods.all().map(({ metadata, status }) => [metadata.name, status?.phase])).toEqual([
    ["web", "Running"],
    ["api", "Pending"],
  ]);
});

test("a finished pod is found while the sources list it: its logs can still be read", () => {
  const done = podOf("done", "u-1");
  const pods = lookup([], [{ pod: done, status: { phase: "Succeeded" } }]);
  expect(pods.named("shop", "done")?.status?.phase).toBe("Succeeded");
});

test("of two pods with one name the one that is to run is found, whatever the order", () => {
  const [old, young] = [podOf("web", "old"), podOf("web", "young")];
  const reports = [old, young].map((pod) => ({ pod, status: { phase: "Running" } as const }));
  const desired = [{ pod: old, isEnding: true }, { pod: young }];
  expect(lookup(desired, reports).named("shop", "web")?.metadata.uid).toBe("young");
  expect(lookup(desired.toReversed(), reports.toReversed()).named("shop", "web")?.metadata.uid).toBe("young");
});

test("a name in another namespace is another pod", () => {
  expect(lookup([{ pod: podOf("web", "u-1") }], []).named("other", "web")).toBeUndefined();
});
