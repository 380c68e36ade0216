import { FakeClock } from "../fakes/clock.ts";
import { FakeDisk } from "../fakes/files.ts";
import { FakeMounts } from "../fakes/mounts.ts";
import { FakeNetworkMounts } from "../fakes/network-mounts.ts";
import { networkMountsContract } from "./network-mounts.ts";

networkMountsContract("servers in memory", async () => {
  const disk = new FakeDisk(Date.now);
  await disk.at("/").makeFolder("root", 0o755);
  const mounts = new FakeMounts(disk);
  const networkMounts = new FakeNetworkMounts(mounts, new FakeClock());
  networkMounts.refusals.set("refuses", "mount.nfs: access denied by server while mounting refuses:/data\n");
  networkMounts.refusals.set("-obind", "mount.nfs: Failed to resolve server -obind\n");
  for (const server of ["hangs", "late"]) networkMounts.setAnswering(server, false);
  networkMounts.mountsWhenKilled.add("late");
  return {
    files: disk.at("/root"),
    mounts,
    networkMounts,
    waitUntilStarted: async () => networkMounts.setAnswering("late", true),
    end: () => {},
  };
});
