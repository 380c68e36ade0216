import { type ContainerdVersion, containerdVersions, downloadContainerd } from "../bed/containerd/containerd.ts";

/**
 * The releases of containerd on which a test of several releases runs: the newest one, since all other tests run on the
 * oldest. BERTH_CONTAINERD names others, separated by commas, as `npm run test:extended` does.
 */
export const versionsUnderTest: readonly ContainerdVersion[] = (process.env["BERTH_CONTAINERD"] ?? "2.1")
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
