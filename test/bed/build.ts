import { stat } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { builtBinary } from "./agent.ts";
import { ownProcessGroup } from "./cleanup/processes.ts";

const repository = join(import.meta.dirname, "..", "..");

/**
 * Builds the program if a source file is newer than it. Returns the output of the build, or a line that says that the
 * program is up to date. Throws with the build's error output.
 */
export async function buildIfStale(): Promise<string> {
  if (await isUpToDate()) return "dist/berth is up to date";
  const { failed, stdout, stderr } = await execa(process.execPath, ["cli/build.ts"], {
    ...ownProcessGroup,
    cwd: repository,
    reject: false,
  });
  if (failed) throw new Error(stderr);
  return stdout;
}

async function isUpToDate(): Promise<boolean> {
  const builtAt = await modifiedAt(builtBinary);
  const sources = new Bun.Glob("{proto,host,probe-net,cri,kube,agent,cli}/**/*.ts").scanSync({
    cwd: repository,
    absolute: true,
  });
  const times = await Promise.all([...sources, join(repository, "package-lock.json")].map(modifiedAt));
  return times.every((time) => time <= builtAt);
}

const modifiedAt = async (path: string) =>
  await stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  );
