// recursiveReadOnly of volume mounts: KEP-3857.
import { expect, test } from "bun:test";
import { createInCluster } from "./api-scenario.ts";

const spec = (recursiveReadOnly: "Enabled" | "IfPossible") => ({
  containers: [
    {
      name: "a",
      image: "busybox:1",
      volumeMounts: [{ name: "v", mountPath: "/v", readOnly: true, recursiveReadOnly }],
    },
  ],
  volumes: [{ name: "v", emptyDir: {} }],
});

const rows: readonly [support: boolean | undefined, enabled: string, ifPossible: string][] = [
  [true, "running, Enabled", "running, Enabled"],
  [false, "waiting, Disabled", "running, Disabled"],
  [undefined, "waiting, Disabled", "running, Disabled"],
];
for (const [recursiveReadOnlyMounts, enabled, ifPossible] of rows)
  test(`on a runtime that reports ${recursiveReadOnlyMounts} for recursive read-only mounts, Enabled is ${enabled}, IfPossible ${ifPossible}`, async () => {
    const harness = await createInCluster();
    harness.runtime.features =
      recursiveReadOnlyMounts === undefined
        ? undefined
        : { userNamespaces: true, recursiveReadOnlyMounts, supplementalGroupsPolicy: true };
    await harness.start();
    await harness.apply("enabled", spec("Enabled"));
    await harness.apply("possible", spec("IfPossible"));
    await harness.advance("5s");
    const found = harness.podReports().map(({ pod, status }) => {
      const [container] = status.containerStatuses ?? [];
      const [state] = Object.keys(container?.state ?? {});
      return `${pod.metadata.name}: ${state}, ${container?.volumeMounts?.[0]?.recursiveReadOnly}`;
    });
    expect(found.toSorted()).toEqual([`enabled: ${enabled}`, `possible: ${ifPossible}`]);
    const mounted = [...harness.runtime.containers.values()].map(({ config, sandbox }) => [
      sandbox.config.metadata?.name,
      config.mounts[0]?.recursiveReadOnly,
    ]);
    const isSupported = recursiveReadOnlyMounts === true;
    expect(mounted).toEqual([...(isSupported ? [["enabled", true]] : []), ["possible", isSupported]]);
    if (isSupported) return;
    expect((await harness.events("enabled")).join("\n")).toContain(
      'Error: failed to resolve recursive read-only mode: volume "v" requested recursive read-only mode, but it is not supported by the runtime',
    );
  });
