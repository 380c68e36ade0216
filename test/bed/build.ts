import { stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { execa } from "execa";
import { builtBinary } from "./agent.ts";
import { ownProcessGroup } from "./cleanup/processes.ts";

const repository = join(import.meta.dirname, "..", "..");

/** The program for arm64 that `npm run build -- --arch arm64` creates. */
export const arm64Binary = process.arch === "arm64" ? builtBinary : `${builtBinary}-arm64`;

/**
 * Builds the program if a source file is newer than it. Returns the output of the build, or a line that says that the
 * program is up to date. Throws with the build's error output.
 */
export async function buildIfStale(): Promise<string> {
  return await buildBinary(builtBinary, process.arch);
}

/** As `buildIfStale`, for `arm64Binary`. */
export async function buildArm64IfStale(): Promise<string> {
  return await buildBinary(arm64Binary, "arm64");
}

async function buildBinary(binary: string, arch: string): Promise<string> {
  if (await isUpToDate(binary)) return `dist/${basename(binary)} is up to date`;
  const { failed, stdout, stderr } = await execa(process.execPath, ["cli/build.ts", "--arch", arch], {
    ...ownProcessGroup,
    cwd: repository,
    reject: false,
  });
  if (failed) throw new Error(stderr);
  return stdout;
}

async function isUpToDate(binary: string): Promise<boolean> {
  const builtAt = await modifiedAt(binary);
  const sources = new Bun.Glob("{proto,host,probe-net,cri,kube,cni,cgroups,agent,cli}/**/*.{ts,c,h}").scanSync({
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
