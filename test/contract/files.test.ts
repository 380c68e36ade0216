import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../host/fs/files.ts";
import { FakeDisk } from "../fakes/files.ts";
import { filesContract } from "./files.ts";

filesContract("a real directory", async () => {
  const root = await mkdtemp(join(tmpdir(), "berth-files-"));
  return { files: createFiles(root), end: () => rm(root, { recursive: true, force: true }) };
});

filesContract("the disk in memory", async () => {
  const disk = new FakeDisk(Date.now);
  await disk.at("/").makeFolder("root", 0o755);
  return { files: disk.at("/root"), end: () => {} };
});
