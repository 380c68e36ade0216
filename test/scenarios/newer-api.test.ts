// Pods of an API server that is newer than this agent: what is not known here harms nobody else, and no pod runs without what it asks for.
import { expect, test } from "bun:test";
import { pods } from "../../kube/resource.ts";
import type { PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { inCluster } from "./api-scenario.ts";
import { createStage } from "./harness.ts";

/** What this release's types do not know. */
const newer = (spec: object) => spec as Partial<PodSpec>;
const withContainer = (fields: object) => newer({ containers: [{ name: "a", image: "busybox:1", ...fields }] });
const running = "odd Running, ready: a running";
const unmounted = "odd Pending: a waiting ContainerCreating";
const misconfigured = "odd Pending: a waiting CreateContainerConfigError";

const rows: readonly (readonly [what: string, spec: Partial<PodSpec>, shown: string, told?: RegExp])[] = [
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
    /Warning FailedMount: .*\/etc is to be of the type "Hologram", which this release does not know/,
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
for (const [what, spec, shown, told] of rows)
  test(`${what} that is not known here harms nobody else`, async () => {
    const stage = await createStage(inCluster);
    await stage.start();
    await stage.apply("odd", spec);
    await stage.apply("web");
    await stage.advance("20s");
    expect(await stage.shown()).toEqual([shown, "web Running, ready: a running"]);
    if (told !== undefined) expect((await stage.events("odd")).filter((line) => told.test(line))).toHaveLength(1);
    await stage.remove("odd", 1);
    await stage.advance("40s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  });

/** What no API server sends, and one that is far newer, or lies, might. */
const odd: readonly (readonly [spec: object, problem: string])[] = [
  [{ readinessGates: [null] }, "spec.readinessGates[0]: Invalid type: got null, expected object"],
  [{ hostAliases: {} }, "spec.hostAliases: Invalid type: got object, expected array"],
  [{ nodeSelector: { disk: 1 } }, "spec.nodeSelector[disk]: Invalid type: got 1, expected string"],
];
for (const [spec, problem] of odd)
  test(`a pod that is none is told of, and costs only itself: ${problem}`, async () => {
    const stage = await createStage(inCluster);
    await stage.apply("odd", newer(spec));
    await stage.apply("web");
    await stage.start();
    await stage.advance("20s");
    expect(await stage.shown()).toEqual(["odd Pending: no containers", "web Running, ready: a running"]);
    expect(await stage.events("odd")).toEqual([
      `1x Warning FailedValidation: Error validating pod from api, ignoring: ${problem}`,
    ]);
    await stage.remove("odd", 0);
    await stage.apply("db");
    await stage.advance("20s");
    expect(await stage.shown()).toEqual(["db Running, ready: a running", "web Running, ready: a running"]);
  });

test("a phase that is not known here, and an annotation of 300 KB, are no reason for anything", async () => {
  const stage = await createStage(inCluster);
  await stage.start();
  await stage.apply("odd");
  await stage.advance("5s");
  const containers = stage.runtime.containers.size;
  const metadata = { annotations: { "example.com/large": "x".repeat(300_000) } };
  await stage.kube.user.patch(pods("default"), "odd", { type: "merge", body: { metadata } });
  const status = { phase: "Meditating", aura: "violet" };
  await stage.kube.user.patch(pods("default"), "odd", { type: "merge", subresource: "status", body: { status } });
  await stage.advance("20s");
  expect(await stage.shown()).toEqual([running]);
  expect(stage.runtime.containers.size).toBe(containers);
  const patches = stage.kube.calls.filter((call) => call.startsWith("patch pods")).length;
  await stage.advance("5m");
  expect(stage.kube.calls.filter((call) => call.startsWith("patch pods"))).toHaveLength(patches);
});
