import { stat } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { builtBinary } from "./agent.ts";
import { apart } from "./cleanup/processes.ts";

const repository = join(import.meta.dirname, "..", "..");

/**
 * Builds the program if a source file is newer than it, and returns what the build said, or that nothing had changed. Throws with
 * what the build said of its failure.
 */
export async function buildIfStale(): Promise<string> {
  if (await isFresh()) return "dist/berth is up to date";
  const { failed, stdout, stderr } = await execa(process.execPath, ["cli/build.ts"], {
    ...apart,
    cwd: repository,
    reject: false,
  });
  if (failed) throw new Error(stderr);
  return stdout;
}

async function isFresh(): Promise<boolean> {
  const builtAt = await modifiedAt(builtBinary);
  const sources = new Bun.Glob("{proto,host,cri,kube,agent,cli}/**/*.ts").scanSync({ cwd: repository, absolute: true });
  const times = await Promise.all([...sources, join(repository, "package-lock.json")].map(modifiedAt));
  return times.every((time) => time <= builtAt);
}

const modifiedAt = async (path: string) =>
  await stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  );
