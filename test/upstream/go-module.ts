// Programs that are built from Go modules: which release a go.mod names, how the modules are downloaded, and how a build
// gets into the cache.
import { accessSync, constants } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ExecaError, execa } from "execa";
import { backoffMs } from "../../host/async/backoff.ts";

/** The version that the text of a go.mod requires of a module, without its `v`. */
export function requiredVersion(goMod: string, module: string): string {
  const line = goMod.split("\n").find((one) => one.trim().startsWith(`${module} v`));
  const version = line?.trim().split(" ")[1]?.slice(1);
  if (version === undefined) throw new Error(`go.mod requires no ${module}`);
  return version;
}

export function isExecutable(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    // Absent or not executable: both mean that the program cannot be used.
    return false;
  }
}

/**
 * Fills `folder` in one step with what `compile` writes into the work folder it is given. Another process may build the
 * same at once: then the programs of either one will do.
 */
export async function buildInto(folder: string, compile: (work: string) => Promise<unknown>): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const work = await mkdtemp(join(dirname(folder), ".building-"));
  try {
    await compile(work);
    await rename(work, folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** What to download: `packages` as the go.mod in `folder` requires them. `go` is the program. */
export interface ModuleDownload {
  readonly go: string;
  readonly folder: string;
  readonly packages: readonly string[];
  /** The whole environment; this process's own if not given. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Waits between two attempts; the tests do not. */
  readonly sleep?: (ms: number) => Promise<void>;
}

const MAX_ATTEMPTS = 6;

/** Go's words for a download that may succeed the next time. */
const isTransient = (stderr: string): boolean =>
  /TLS handshake timeout|i\/o timeout|connection re(set|fused)|unexpected EOF|temporary failure|50[0234] |stream error/i.test(
    stderr,
  );

/**
 * Downloads the modules that `packages` need, without a build: Go does not repeat a failed download itself, and a build
 * with the lowest priority may get no processor for as long as a TLS handshake may last. Repeats what a network breaks, six
 * attempts in a minute, and continues after what is there. Throws the last attempt's ExecaError.
 */
export async function downloadModules(download: ModuleDownload): Promise<void> {
  const { go, folder, packages, env = process.env, sleep = (ms) => Bun.sleep(ms) } = download;
  for (let failures = 0; ; ) {
    try {
      await execa(go, ["list", "-deps", ...packages], {
        cwd: folder,
        env: { ...env, GOFLAGS: "-mod=readonly", GOWORK: "off" },
        extendEnv: false,
        stdout: "ignore",
      });
      return;
    } catch (error) {
      failures++;
      if (failures === MAX_ATTEMPTS || !(error instanceof ExecaError) || !isTransient(String(error.stderr)))
        throw error;
      await sleep(backoffMs({ initialMs: 2_000, maxMs: 20_000 }, failures));
    }
  }
}
