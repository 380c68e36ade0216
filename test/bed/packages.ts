import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";

/**
 * Programs of other Debian releases, and of this one, without installing anything: the packages are downloaded through
 * the machine's own mirror, checked by apt against Debian's keyring, and unpacked with `dpkg -x` into a cache folder. A
 * machine that runs Docker's containerd, or none, stays as it is, and no system service is started.
 */
export type Suite = "bookworm" | "bookworm-headers" | "trixie" | "forky" | "vm-guest" | "vm-host";

const wanted: Readonly<Record<Suite, readonly string[]>> = {
  bookworm: ["containerd", "runc", "containernetworking-plugins", "busybox-static", "catatonit", "docker-registry"],
  /** Of the same release, and wanted only where something is compiled. */
  "bookworm-headers": ["libseccomp-dev"],
  trixie: ["kubectl"],
  forky: ["containerd", "kubectl"],
  "vm-guest": [
    "base-files",
    "busybox-static",
    "catatonit",
    "containerd",
    "containernetworking-plugins",
    "libc6",
    "linux-image-cloud-amd64",
    "runc",
  ],
  "vm-host": ["e2fsprogs", "qemu-system-x86", "xz-utils"],
};

/**
 * Suites that are whole: with all that their packages depend on, down to the C library, so that they run without anything of the
 * machine. What is named last of their releases is preferred.
 */
const whole: Readonly<Partial<Record<Suite, readonly string[]>>> = {
  "vm-guest": ["trixie"],
  "vm-host": ["bookworm", "bookworm-backports"],
};

/** The unpacked packages of one suite: `root` is laid out like `/`, `versions` maps package names to their versions. */
export interface UnpackedSuite {
  readonly root: string;
  readonly versions: Readonly<Record<string, string>>;
}

/** The folder for what is downloaded or built once and kept between runs: `$XDG_CACHE_HOME/berth` or `~/.cache/berth`. */
export function cacheFolder(env: Readonly<Record<string, string | undefined>> = process.env): string {
  return join(env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "berth");
}

/**
 * Makes sure that the packages of `suite` are unpacked in the cache, and tells where. Downloads on the first call (some
 * seconds), reads one small file afterwards. `say` gets a sentence for what takes long. Throws with one clear line
 * if apt is missing, the mirror does not answer, or a package is gone from the suite.
 */
export async function unpackSuite(
  suite: Suite,
  say: (line: string) => void = () => undefined,
  cache = cacheFolder(),
): Promise<UnpackedSuite> {
  const root = join(cache, "debian", suite);
  const known = await readVersions(root, suite);
  if (known !== undefined) return { root, versions: known };
  say(`downloading ${wanted[suite].join(", ")} of Debian ${whole[suite]?.at(-1) ?? suite} into ${root}`);
  await mkdir(join(cache, "debian"), { recursive: true });
  const work = await mkdtemp(join(cache, "debian", `.${suite}-`));
  try {
    await download(suite, work);
    const versions = await unpack(work, join(work, "root"));
    // What there may be goes out of the way in one step, since programs of it may be running; then with the work folder.
    await rename(root, join(work, "outdated")).catch(() => undefined);
    await rename(join(work, "root"), root);
    return { root, versions };
  } catch (cause) {
    // Someone else may have unpacked the same while we did: then theirs is as good.
    const theirs = await readVersions(root, suite);
    if (theirs !== undefined) return { root, versions: theirs };
    throw new Error(`Debian ${suite}: cannot get ${wanted[suite].join(", ")}: ${firstError(cause)}`, { cause });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** What is unpacked, or undefined if that is nothing, or less than is wanted today. */
async function readVersions(root: string, suite: Suite): Promise<Readonly<Record<string, string>> | undefined> {
  const text = await readFile(join(root, "versions.json"), "utf8").catch(() => "{}");
  const versions = JSON.parse(text) as Record<string, string>;
  return wanted[suite].every((name) => name in versions) ? versions : undefined;
}

async function download(suite: Suite, work: string): Promise<void> {
  const codename = /^VERSION_CODENAME=(.*)$/m.exec(await readFile("/etc/os-release", "utf8"))?.[1] ?? "";
  let mirror = await askMirror(codename);
  if (mirror === undefined) {
    // apt knows its sources only once it has fetched their lists, which a fresh machine has not.
    await execa("apt-get", ["update", "-q"]);
    mirror = await askMirror(codename);
  }
  if (mirror === undefined) throw new Error(`apt knows no Debian mirror with main for "${codename}"`);
  const releases = whole[suite] ?? [suite.replace("-headers", "")];
  const env = { APT_CONFIG: await privateApt(work, mirror, releases), DEBIAN_FRONTEND: "noninteractive" };
  await execa("apt-get", ["update", "--error-on=any"], { env });
  // This apt knows of no package that is installed, so it takes all of them.
  const withAll = ["install", "--download-only", "--yes", "--no-install-recommends", `-t=${releases.at(-1)}`];
  const command = suite in whole ? withAll : ["download"];
  await execa("apt-get", [...command, ...wanted[suite]], { env, cwd: join(work, "debs") });
}

async function askMirror(codename: string): Promise<string | undefined> {
  const format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
  const { stdout } = await execa("apt-get", ["indextargets", "--format", format, "Created-By: Packages"]);
  return pickMirror(stdout, codename);
}

/**
 * Finds the mirror in the output of `apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)'`: the address
 * that serves the component main of the release this machine runs. Undefined if there is none.
 */
export function pickMirror(targets: string, codename: string): string | undefined {
  const rows = targets.split("\n").map((line) => line.split(" "));
  return rows.find(([, release, component]) => release === codename && component === "main")?.[0];
}

/** An apt of its own: lists, cache and sources below `work`. What the machine's apt.conf.d says (a proxy) still holds. */
async function privateApt(work: string, mirror: string, releases: readonly string[]): Promise<string> {
  const folders = ["debs/partial", "state/lists/partial", "cache", "root"];
  for (const folder of folders) await mkdir(join(work, folder), { recursive: true, mode: 0o755 });
  const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
  const sources = releases.map((release) => `deb [signed-by=${keyring}] ${mirror} ${release} main\n`);
  await writeFile(join(work, "sources.list"), sources.join(""));
  await writeFile(join(work, "state/status"), "");
  const config = join(work, "apt.conf");
  await writeFile(
    config,
    `Dir::State "${work}/state/";
Dir::State::status "${work}/state/status";
Dir::Cache "${work}/cache/";
Dir::Cache::archives "${work}/debs/";
Dir::Etc::sourcelist "${work}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
APT::Sandbox::User "root";
`,
  );
  return config;
}

async function unpack(work: string, root: string): Promise<Record<string, string>> {
  const versions: Record<string, string> = {};
  for (const file of new Bun.Glob("*.deb").scanSync({ cwd: join(work, "debs"), absolute: true })) {
    await execa("dpkg", ["-x", file, root]);
    const { stdout } = await execa("dpkg-deb", ["--show", "--showformat", "$" + "{Package} $" + "{Version}", file]);
    const [name = "", version = ""] = stdout.split(" ");
    versions[name] = version;
  }
  await writeFile(join(root, "versions.json"), `${JSON.stringify(versions, null, 2)}\n`);
  return versions;
}

/** The line of a failed program that says why, else the error's own first line. */
function firstError(cause: unknown): string {
  const stderr = cause instanceof Error && "stderr" in cause ? String(cause.stderr) : "";
  const line = stderr.split("\n").find((one) => one.startsWith("E:"));
  return line ?? (cause instanceof Error ? (cause.message.split("\n")[0] ?? "") : String(cause));
}
