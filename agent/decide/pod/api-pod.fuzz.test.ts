import { expect, test } from "bun:test";
import fc from "fast-check";
import type { PodUid } from "../../../proto/ids.ts";
import { readTold } from "../../../proto/kubernetes/decode/lenient-decode.ts";
import { oddPod } from "../../../test/fakes/arbitrary-json.ts";
import { nodeSettings, observedMachine } from "../../../test/fakes/observed-node.ts";
import { answerTo, entered } from "../admission/admission.ts";
import { admittingNode } from "../admission/admission-node.ts";
import { createPlaces } from "../admission/node-usage.ts";
import { refusalOf, unsupportedFeatures } from "../admission/unsupported-features.ts";
import { mergeApi } from "../sources/merge-api.ts";
import { emptyMemory } from "./memory.ts";
import { nothingObserved } from "./observed.ts";
import { decidePod } from "./pod.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const timeoutMs = 5_000 + numRuns;
const uid = "u" as PodUid;
const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: ["192.0.2.1"] };

/** Half of the pods say how they were. */
const withStatus = fc.tuple(oddPod, fc.boolean()).map(([pod, isStarted]) => {
  if (typeof pod !== "object" || pod === null) return pod;
  const { metadata = {}, status = {} } = pod as { readonly metadata?: object; readonly status?: object };
  const named = { ...pod, metadata: { ...metadata, uid, name: "web", namespace: "shop" } };
  return isStarted ? { ...named, status: { startTime: "2026-01-02T03:04:05Z", ...status } } : named;
});

test(
  "of whatever an API server tells, what can be read is taken or refused, and trips nobody",
  () => {
    const node = admittingNode(undefined, observedMachine, nodeSettings);
    fc.assert(
      fc.property(withStatus, (told) => {
        const { object: pod, problem } = readTold("Pod", told);
        if (problem !== undefined) {
          expect(problem.message).toStartWith("Invalid ");
          return;
        }
        const places = createPlaces();
        const news = { kind: "changed", pod } as const;
        const none = mergeApi(
          () => undefined,
          () => [],
          news,
          0,
        );
        for (const added of none.added) {
          const desired = entered(added);
          unsupportedFeatures(pod, { isOfApi: false, isInCluster: true, isJudged: true });
          refusalOf(pod);
          const { occupancy } = places;
          answerTo(desired, { node, occupancy, isNodeFresh: true, areOthersSeen: true, canLeaveOutGroups: undefined });
          places.note({ ...desired, revision: 0 });
          const again = { ...pod, metadata: { ...pod.metadata, deletionTimestamp: "2026-01-02T03:04:05Z" } };
          const later = { kind: "changed", pod: again } as const;
          const { ended } = mergeApi(
            () => desired,
            () => [desired],
            later,
            1000,
          );
          const { admission: _, ...admitted } = desired;
          for (const each of [desired, admitted, ...ended])
            decidePod(each, nothingObserved(uid, "shop", "web"), emptyMemory, settings, 2000);
        }
      }),
      { numRuns },
    );
  },
  timeoutMs,
);
