import { expect, test } from "bun:test";
import fc from "fast-check";
import type { PodUid } from "../../../proto/ids.ts";
import { decodeLenient } from "../../../proto/kubernetes/decode/lenient-decode.ts";
import { mutatedPod } from "../../../test/fakes/arbitrary-json.ts";
import { leastCount } from "../../../test/fakes/least-count.ts";
import { nodeSettings, observedMachine } from "../../../test/fakes/observed-node.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import { createNodeUsage } from "../../desired/node-usage.ts";
import { admitPod, withInitialAdmission } from "../admission/admission.ts";
import { toAdmissionNode } from "../admission/admission-node.ts";
import { forbiddenSysctlRejection, unsupportedFeatures } from "../admission/unsupported-features.ts";
import { mergeApi } from "../sources/merge-api.ts";
import { emptyMemory } from "./memory.ts";
import { decidePod } from "./pod.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
/** `npm test` runs it with the lowest priority beside other suites. */
const timeoutMs = 30_000 + 30 * numRuns;
const uid = "u" as PodUid;
const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: ["192.0.2.1"] };

/** Half of the pods have a status. */
const withStatus = fc.tuple(mutatedPod, fc.boolean()).map(([pod, isStarted]) => {
  if (typeof pod !== "object" || pod === null) return pod;
  const { metadata = {}, status = {} } = pod as { readonly metadata?: object; readonly status?: object };
  const named = { ...pod, metadata: { ...metadata, uid, name: "web", namespace: "shop" } };
  return isStarted ? { ...named, status: { startTime: "2026-01-02T03:04:05Z", ...status } } : named;
});

test(
  "random pods of an API server are rejected or decided without an exception",
  () => {
    const node = toAdmissionNode(undefined, observedMachine, nodeSettings);
    let decided = 0;
    fc.assert(
      fc.property(withStatus, (reported) => {
        const { object: pod, problem } = decodeLenient("Pod", reported);
        if (problem !== undefined) {
          expect(problem.message).toStartWith("Invalid ");
          return;
        }
        const places = createNodeUsage();
        const update = { kind: "changed", pod } as const;
        const none = mergeApi(
          () => undefined,
          () => [],
          update,
          0,
        );
        for (const added of none.added) {
          const desired = withInitialAdmission(added);
          unsupportedFeatures(pod, { isApiPod: false, isInCluster: true, isAdmissionChecked: true });
          forbiddenSysctlRejection(pod);
          const { usage } = places;
          admitPod(desired, {
            node,
            usage,
            isNodeUpToDate: true,
            arePreviousPodsObserved: true,
            supportsGroupsPolicy: undefined,
          });
          places.update({ ...desired, revision: 0 });
          const again = { ...pod, metadata: { ...pod.metadata, deletionTimestamp: "2026-01-02T03:04:05Z" } };
          const later = { kind: "changed", pod: again } as const;
          const { terminating } = mergeApi(
            () => desired,
            () => [desired],
            later,
            1000,
          );
          const { admission: _, ...admitted } = desired;
          for (const each of [desired, admitted, ...terminating])
            decidePod(each, emptyObservedPod(uid, "shop", "web"), emptyMemory, settings, 2000);
          decided += 1;
        }
      }),
      { numRuns },
    );
    expect(decided).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  timeoutMs,
);
