import { type ContainerdVersion, containerdVersions, downloadContainerd } from "../bed/containerd/containerd.ts";

/**
 * The releases of containerd on which a test of several releases runs: the oldest and the newest one. `npm run
 * test:extended` names those in between in BERTH_CONTAINERD, separated by commas.
 */
export const versionsUnderTest: readonly ContainerdVersion[] = (process.env["BERTH_CONTAINERD"] ?? "1.6,2.1")
  .split(",")
  .map((name) => {
    const version = containerdVersions.find((one) => one === name);
    if (version === undefined) throw new Error(`BERTH_CONTAINERD: no test bed has containerd "${name}"`);
    return version;
  });

/** Downloads or builds each release under test, before tests run in a network namespace that has no network. */
export async function downloadVersions(): Promise<void> {
  for (const version of versionsUnderTest) await downloadContainerd(version);
}
