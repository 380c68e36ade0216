// Builds the binary: bun cli/build.ts [--arch x64|arm64]. The options: --bytecode with --splitting starts in
// milliseconds and loads only what a command uses; the JIT policy saves memory in a daemon; the no-autoload options
// keep a program that runs as root from reading a .env or bunfig.toml in its working directory.
import { mkdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ExecaError, execa } from "execa";
import { compileDelegate, compilerOf, type Target } from "./compile-delegate.ts";

const usage = `npm run build -- [--arch x64|arm64]

Builds dist/berth and the link dist/kubelet; for the other processor dist/berth-x64 or dist/berth-arm64. With a C compiler of the
target (cc; for the other processor aarch64-linux-gnu-gcc or x86_64-linux-gnu-gcc) it contains the static form of berth-cni.

  --arch     the target processor (default: this machine's)
`;

/** How every program of ours is compiled. */
export const compileOptions = [
  "--compile",
  "--minify",
  "--bytecode",
  "--format=esm",
  "--splitting",
  "--sourcemap",
  "--compile-jit-policy=1000",
  "--no-compile-autoload-dotenv",
  "--no-compile-autoload-bunfig",
] as const;

async function main(): Promise<number> {
  const target = readTarget();
  if (typeof target === "number") return target;
  try {
    process.stdout.write(`${await build(target)}\n`);
    return 0;
  } catch (error) {
    const reason = describeBuildError(error);
    if (reason === undefined) throw error;
    process.stderr.write(`build: ${reason}\n`);
    return 1;
  }
}

/** The target; or the exit code, after printing the help or a usage error. */
function readTarget(): Target | number {
  const help = { type: "boolean", short: "h", default: false } as const;
  try {
    const { values } = parseArgs({ options: { arch: { type: "string", default: process.arch }, help } });
    if (!values.help && (values.arch === "x64" || values.arch === "arm64")) return values.arch;
    if (values.help) process.stdout.write(usage);
    else process.stderr.write(`build: --arch is "${values.arch}", must be x64 or arm64\n`);
    return values.help ? 0 : 2;
  } catch (error) {
    // parseArgs adds a hint about positional arguments, which do not exist here.
    const [problem] = (error instanceof Error ? error.message : String(error)).split(". ");
    process.stderr.write(`build: ${problem}\n\n${usage}`);
    return 2;
  }
}

/**
 * The reason of a failed build that its user can fix: bun's error messages, or a file error. Undefined for a bug of
 * this script.
 */
export function describeBuildError(error: unknown): string | undefined {
  if (error instanceof ExecaError) return String(error.stderr);
  if (!(error instanceof Error && "syscall" in error && "code" in error)) return undefined;
  if (["EACCES", "EPERM", "EROFS"].includes(String(error.code)))
    return `${error.message}: build as the owner of this clone, or in a clone of your own`;
  return error.message;
}

async function build(target: Target): Promise<string> {
  const started = performance.now();
  const root = join(import.meta.dirname, "..");
  const dist = join(root, "dist");
  const outfile = join(dist, target === process.arch ? "berth" : `berth-${target}`);
  const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { readonly version: string };
  const stamp = { version, commit: await commit(root) };
  // A directory of its own, because bun writes source maps beside the binary.
  const workDir = join(dist, `.build-${process.pid}`);
  await mkdir(workDir, { recursive: true });
  let delegate: Uint8Array | undefined;
  try {
    delegate = await compileDelegate(compilerOf(target), join(workDir, "berth-cni"));
    const options = [
      ...compileOptions,
      `--target=bun-linux-${target}`,
      `--define=BERTH_VERSION=${JSON.stringify(stamp.version)}`,
      `--define=BERTH_COMMIT=${JSON.stringify(stamp.commit)}`,
      ...(delegate === undefined ? [] : [`--define=BERTH_STATIC_DELEGATE="${delegate.toBase64()}"`]),
      `--outfile=${join(workDir, "berth")}`,
    ];
    await execa(process.execPath, ["build", ...options, join(root, "cli", "main.ts")], { cwd: root });
    // Renamed into place, so a running berth keeps its file.
    await rename(join(workDir, "berth"), outfile);
  } finally {
    await rm(workDir, { recursive: true });
  }
  if (target === process.arch) await linkAsKubelet(dist);
  const { size } = await stat(outfile);
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const name = outfile.slice(root.length + 1);
  return `${name}: berth ${version} (${stamp.commit}) for linux-${target}, ${(size / 1e6).toFixed(1)} MB, built in ${seconds} s
${describeDelegate(target, delegate)}`;
}

/**
 * One line about the form of the plugin `berth-cni` that a build contains. `delegate`: the static form, if it was compiled.
 *
 * @internal
 */
export function describeDelegate(target: Target, delegate: Uint8Array | undefined): string {
  const compiler = compilerOf(target);
  if (delegate !== undefined)
    return `berth-cni: a static program of ${(delegate.length / 1e3).toFixed(1)} kB, compiled by ${compiler}`;
  return `berth-cni: a link to the whole program, which takes 8 ms of CPU more for each call: this machine has no C compiler ${compiler}`;
}

/** Creates the link under whose name the program takes the kubelet's flags directly. */
async function linkAsKubelet(dist: string): Promise<void> {
  await rm(join(dist, "kubelet"), { force: true });
  await symlink("berth", join(dist, "kubelet"));
}

/** The short commit, with a plus where tracked files differ from it; "unknown" outside a git clone. */
async function commit(root: string): Promise<string> {
  const git = (args: readonly string[]) => execa("git", [...args], { cwd: root, reject: false });
  const [head, changes] = await Promise.all([
    git(["rev-parse", "--short=12", "HEAD"]),
    git(["status", "--porcelain", "--untracked-files=no"]),
  ]);
  if (head.failed) return "unknown";
  return `${head.stdout}${changes.stdout === "" ? "" : "+"}`;
}

if (import.meta.main) process.exitCode = await main();
