import { FakeClock } from "../fakes/clock.ts";
import { FakeDisk } from "../fakes/files.ts";
import { FakeMounts } from "../fakes/mounts.ts";
import { FakeNetworkFiles } from "../fakes/network-files.ts";
import { networkFilesContract } from "./network-files.ts";

networkFilesContract("a disk in memory", async () => {
  const disk = new FakeDisk(Date.now);
  await disk.at("/").makeFolder("root", 0o755);
  const mounts = new FakeMounts(disk);
  return {
    files: disk.at("/root"),
    mounts,
    networkFiles: new FakeNetworkFiles(disk, mounts, new FakeClock()),
    mountDead(path) {
      mounts.mountNetwork(path, { fsType: "nfs4", source: "dead:/data", options: [] });
      mounts.deadServers.add("dead");
    },
    end: () => {},
  };
});
