import { FakeDisk } from "../fakes/files.ts";
import { FakeMounts } from "../fakes/mounts.ts";
import { mountsContract } from "./mounts.ts";

mountsContract("a mount table in memory", async () => {
  const disk = new FakeDisk(Date.now);
  await disk.at("/").makeFolder("root", 0o755);
  const files = disk.at("/root");
  const mounts = new FakeMounts(disk);
  return {
    files,
    mounts,
    async holdOpen(path) {
      mounts.openFiles.add(files.path(path));
      return () => void mounts.openFiles.delete(files.path(path));
    },
    end: () => {},
  };
});
