// Pods of an API server newer than this agent: unknown values affect no other pod, and a pod never runs without a
// feature it needs.
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { inCluster } from "./api-scenario.ts";
import { createHarness } from "./harness.ts";

/** A spec with fields that this release's types do not have. */
const newer = (spec: object) => spec as Partial<PodSpec>;
const withContainer = (fields: object) => newer({ containers: [{ name: "a", image: "busybox:1", ...fields }] });
const running = "odd Running, ready: a running";
const unmounted = "odd Pending: a waiting ContainerCreating";
const misconfigured = "odd Pending: a waiting CreateContainerConfigError";

const rows: readonly (readonly [what: string, spec: Partial<PodSpec>, shown: string, reported?: RegExp])[] = [
  ["a restartPolicy", newer({ restartPolicy: "Sometimes" }), running],
  ["a container's restartPolicy", withContainer({ restartPolicy: "Sometimes" }), running],
  ["a dnsPolicy", newer({ dnsPolicy: "ByMagic" }), running],
  ["an imagePullPolicy", withContainer({ imagePullPolicy: "WhenItRains" }), running],
  ["a terminationMessagePolicy", withContainer({ terminationMessagePolicy: "Sing" }), running],
  ["a port's protocol", withContainer({ ports: [{ containerPort: 80, protocol: "QUIC" }] }), running],
  ["an operator of a toleration", newer({ tolerations: [{ operator: "Resembles", key: "a" }] }), running],
  ["a field", newer({ quantum: { entangled: true }, ...withContainer({ mood: "good" }) }), running],
  [
    "a kind of volume",
    newer({ volumes: [{ name: "v", holographic: { size: 1 } }] }),
    unmounted,
    /Warning FailedMount: MountVolume.SetUp failed for volume "v" : holographic volumes are not supported/,
  ],
  [
    "a type of hostPath",
    newer({ volumes: [{ name: "v", hostPath: { path: "/etc", type: "Hologram" } }] }),
    unmounted,
    /Warning FailedMount: .*\/etc has the type "Hologram", which this release does not know/,
  ],
  [
    "a source of an environment variable",
    withContainer({ env: [{ name: "A", valueFrom: { starKeyRef: {} } }] }),
    misconfigured,
    /Warning Failed: Error: environment variable A: .* not supported by this release/,
  ],
  [
    "a type of seccomp profile",
    newer({ securityContext: { seccompProfile: { type: "Gentle" } } }),
    misconfigured,
    /Warning Failed: Error: seccompProfile has a type that this release does not know: "Gentle"/,
  ],
  [
    "a type of AppArmor profile",
    withContainer({ securityContext: { appArmorProfile: { type: "Gentle" } } }),
    misconfigured,
    /Warning Failed: Error: appArmorProfile has a type that this release does not know: "Gentle"/,
  ],
  ["an os", newer({ os: { name: "plan9" } }), "odd Failed (PodOSNotSupported): no containers"],
];
for (const [what, spec, shown, eventPattern] of rows)
  test(`${what} that this release does not know affects no other pod`, async () => {
    const harness = await createHarness(inCluster);
    await harness.start();
    await harness.apply("odd", spec);
    await harness.apply("web");
    await harness.advance("20s");
    expect(await harness.apiPods()).toEqual([shown, "web Running, ready: a running"]);
    if (eventPattern !== undefined)
      expect((await harness.events("odd")).filter((line) => eventPattern.test(line))).toHaveLength(1);
    await harness.deletePod("odd", 1);
    await harness.advance("40s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });

/** Specs that no API server of today sends. */
const malformedSpecs: readonly (readonly [spec: object, problem: string])[] = [
  [{ readinessGates: [null] }, "spec.readinessGates[0]: Invalid type: got null, expected object"],
  [{ hostAliases: {} }, "spec.hostAliases: Invalid type: got object, expected array"],
  [{ nodeSelector: { disk: 1 } }, "spec.nodeSelector[disk]: Invalid type: got 1, expected string"],
];
for (const [spec, problem] of malformedSpecs)
  test(`a pod that cannot be decoded causes an event and affects no other pod: ${problem}`, async () => {
    const harness = await createHarness(inCluster);
    await harness.apply("odd", newer(spec));
    await harness.apply("web");
    await harness.start();
    await harness.advance("20s");
    expect(await harness.apiPods()).toEqual(["odd Pending: no containers", "web Running, ready: a running"]);
    expect(await harness.events("odd")).toEqual([
      `1x Warning FailedValidation: Error validating pod from api, ignoring: ${problem}`,
    ]);
    await harness.deletePod("odd", 0);
    await harness.apply("db");
    await harness.advance("20s");
    expect(await harness.apiPods()).toEqual(["db Running, ready: a running", "web Running, ready: a running"]);
  });

test("an unknown phase and an annotation of 300 KB cause no action and no patch", async () => {
  const why = "Another client writes the unknown phase.";
  const harness = await createHarness({ ...inCluster, regressions: [{ pod: "odd", rule: "phase", why }] });
  await harness.start();
  await harness.apply("odd");
  await harness.advance("5s");
  const containers = harness.runtime.containers.size;
  const metadata = { annotations: { "example.com/large": "x".repeat(300_000) } };
  await harness.kube.user.patch(pods("default"), "odd", { type: "merge", body: { metadata } });
  const status = { phase: "Meditating", aura: "violet" };
  await harness.kube.user.patch(pods("default"), "odd", { type: "merge", subresource: "status", body: { status } });
  await harness.advance("20s");
  expect(await harness.apiPods()).toEqual([running]);
  expect(harness.runtime.containers.size).toBe(containers);
  const patches = harness.kube.calls.filter((call) => call.startsWith("patch pods")).length;
  await harness.advance("5m");
  expect(harness.kube.calls.filter((call) => call.startsWith("patch pods"))).toHaveLength(patches);
});
