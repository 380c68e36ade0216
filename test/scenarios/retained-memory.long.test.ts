// What the agent keeps of pods that are gone.
import { expect, test } from "bun:test";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { type RetainedEntries, withRetainedEntries } from "./harness/retained-entries.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";

const container = { name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" } as const;
const probe = { exec: { command: ["true"] }, periodSeconds: 1 };
const hook = { exec: { command: ["true"] } };

/** Pods that use as much of the agent as possible. */
const specs: readonly Partial<PodSpec>[] = [
  {
    containers: [
      { ...container, readinessProbe: probe, livenessProbe: probe, lifecycle: { preStop: hook, postStart: hook } },
    ],
  },
  { containers: [{ ...container, image: "missing:1" }] },
  {
    containers: [{ ...container, env: [{ name: "X", valueFrom: { configMapKeyRef: { name: "x", key: "k" } } }] }],
    volumes: [{ name: "cache", emptyDir: {} }],
  },
  { restartPolicy: "Never" },
  { hostUsers: false },
];

/** Starts and ends this many pods of each spec, half of them of the API. */
async function churn(harness: AgentHarness, rounds: number): Promise<void> {
  for (let round = 0; round < rounds; round++)
    for (const [index, spec] of specs.entries()) {
      const name = `pod-${harness.clock.elapsedMs}-${index}`;
      const isApiPod = round % 2 === 0;
      const pod = { terminationGracePeriodSeconds: 1, ...spec };
      if (isApiPod) await harness.apply(name, pod);
      else await harness.setManifests(makePod(name, pod));
      await harness.advance("3s");
      if (isApiPod) await harness.deletePod(name);
      else await harness.setManifests();
      await harness.advance("10s");
    }
  // What is kept for a time is gone then.
  await harness.advance("60m");
}

test("nothing of a pod that is gone stays in a map or a set", async () => {
  await withRetainedEntries(async (count) => {
    const harness = await createHarness({ isInCluster: true });
    harness.nodeObject = { metadata: { name: "node", uid: "node-uid" }, spec: {} };
    await harness.start();
    harness.agent.clusterSync?.onNodeChanged(harness.nodeObject);
    await churn(harness, 2);
    const before = new Map(count().map((each) => [each.site, each]));
    expect(before.size).toBeGreaterThan(20);
    await churn(harness, 4);
    const added = 4 * specs.length;
    const hasGrown = ({ site, entries, collections }: RetainedEntries) =>
      entries - (before.get(site)?.entries ?? 0) >= added / 2 ||
      collections - (before.get(site)?.collections ?? 0) >= added / 2;
    expect(count().filter(hasGrown)).toEqual([]);
  });
}, 60_000);
