import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { ifAbsent } from "./if-absent.ts";

/**
 * A set of Debian packages, of this release or another, that is used without installation: the packages are downloaded
 * from the machine's own mirror, verified by apt against Debian's keyring, and unpacked with `dpkg -x` into a cache
 * folder. An installed containerd stays as it is, and no system service is started.
 */
export type PackageSet =
  | "bookworm"
  | "bookworm-arm64"
  | "bookworm-cross"
  | "bookworm-dbus"
  | "bookworm-emulator"
  | "bookworm-headers"
  | "bookworm-nftables"
  | "bookworm-prometheus"
  | "trixie"
  | "forky"
  | "vm-guest"
  | "vm-host"
  | "vm-node";

const packageNames: Readonly<Record<PackageSet, readonly string[]>> = {
  bookworm: ["containerd", "runc", "containernetworking-plugins", "busybox-static", "catatonit", "docker-registry"],
  /** The libraries of a program for arm64. */
  "bookworm-arm64": ["libc6", "libgcc-s1", "libstdc++6"],
  /** A C compiler for arm64 without a C library, and the libraries that it needs besides its own. */
  "bookworm-cross": [
    "binutils-aarch64-linux-gnu",
    "cpp-12-aarch64-linux-gnu",
    "gcc-12-aarch64-linux-gnu",
    "libgcc-12-dev-arm64-cross",
    "libgmp10",
    "libisl23",
    "libjansson4",
    "libmpc3",
    "libmpfr6",
  ],
  /** A message bus, and the libraries that it needs besides the C library. */
  "bookworm-dbus": [
    "dbus-daemon",
    "libapparmor1",
    "libaudit1",
    "libcap-ng0",
    "libdbus-1-3",
    "libexpat1",
    "libselinux1",
    "libsystemd0",
  ],
  /** Runs programs for another processor. */
  "bookworm-emulator": ["qemu-user-static"],
  /** Headers of the same release, used only for compiling. */
  "bookworm-headers": ["libseccomp-dev"],
  /** The program `nft`, and the libraries that it needs besides the C library. */
  "bookworm-nftables": [
    "libbsd0",
    "libedit2",
    "libgmp10",
    "libjansson4",
    "libmd0",
    "libmnl0",
    "libnftables1",
    "libnftnl11",
    "libtinfo6",
    "libxtables12",
    "nftables",
  ],
  /** With promtool, which checks pages of metrics. */
  "bookworm-prometheus": ["prometheus"],
  trixie: ["containerd", "kubectl"],
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
  "vm-node": [
    "base-files",
    "base-passwd",
    "busybox-static",
    "containerd",
    "containernetworking-plugins",
    "coreutils",
    "dash",
    "dbus",
    "iproute2",
    "iptables",
    "kmod",
    "libc6",
    "linux-image-cloud-amd64",
    "mount",
    "procps",
    "runc",
    "systemd-sysv",
    "util-linux",
  ],
};

/**
 * Sets that include all dependencies of their packages, down to the C library, so that they need nothing of the
 * machine. Of their releases apt prefers the last one.
 */
const releasesWithDependencies: Readonly<Partial<Record<PackageSet, readonly string[]>>> = {
  "vm-guest": ["trixie"],
  "vm-host": ["bookworm", "bookworm-backports"],
  "vm-node": ["trixie"],
};

/** Sets of another architecture than this machine's. */
const architectures: Readonly<Partial<Record<PackageSet, string>>> = { "bookworm-arm64": "arm64" };

/** The unpacked packages of one set: `root` is laid out like `/`, `versions` maps package names to their versions. */
export interface UnpackedPackages {
  readonly root: string;
  readonly versions: Readonly<Record<string, string>>;
}

/** The folder for downloads and builds that are kept between runs: `$XDG_CACHE_HOME/berth` or `~/.cache/berth`. */
export function cacheFolder(env: Readonly<Record<string, string | undefined>> = process.env): string {
  return join(env["XDG_CACHE_HOME"] || join(homedir(), ".cache"), "berth");
}

/**
 * Ensures that the packages of `packageSet` are unpacked in the cache and returns the folder and the versions. Downloads
 * on the first call (some seconds) and reads one small file afterwards. Calls `print` before a download. Throws with one
 * line if apt is missing, the mirror does not answer, or a package is not in its release.
 */
export async function unpackPackages(
  packageSet: PackageSet,
  print: (line: string) => void = () => undefined,
  cache = cacheFolder(),
): Promise<UnpackedPackages> {
  const root = join(cache, "debian", packageSet);
  const known = await readVersions(root, packageSet);
  if (known !== undefined) return { root, versions: known };
  print(
    `downloading ${packageNames[packageSet].join(", ")} of Debian ${releasesWithDependencies[packageSet]?.at(-1) ?? packageSet} into ${root}`,
  );
  await mkdir(join(cache, "debian"), { recursive: true });
  const workDir = await mkdtemp(join(cache, "debian", `.${packageSet}-`));
  try {
    await download(packageSet, workDir);
    const versions = await unpack(workDir, join(workDir, "root"));
    // Moves an outdated folder away in one step, since its programs may be running; it is deleted with the work folder.
    await rename(root, join(workDir, "outdated")).catch(ifAbsent(undefined));
    await rename(join(workDir, "root"), root);
    return { root, versions };
  } catch (cause) {
    // Another process may have unpacked the same set in the meantime: then use its result.
    const otherResult = await readVersions(root, packageSet);
    if (otherResult !== undefined) return { root, versions: otherResult };
    throw new Error(`Debian ${packageSet}: cannot get ${packageNames[packageSet].join(", ")}: ${firstError(cause)}`, {
      cause,
    });
  } finally {
    await rm(workDir, { recursive: true, force: true });
  }
}

/** The versions of the unpacked packages, or undefined if a package that the set needs now is missing. */
async function readVersions(
  root: string,
  packageSet: PackageSet,
): Promise<Readonly<Record<string, string>> | undefined> {
  const text = await readFile(join(root, "versions.json"), "utf8").catch(ifAbsent("{}"));
  const versions = JSON.parse(text) as Record<string, string>;
  return packageNames[packageSet].every((name) => name in versions) ? versions : undefined;
}

async function download(packageSet: PackageSet, workDir: string): Promise<void> {
  const codename = /^VERSION_CODENAME=(.*)$/m.exec(await readFile("/etc/os-release", "utf8"))?.[1] ?? "";
  let mirror = await queryMirror(codename);
  if (mirror === undefined) {
    // apt shows its sources only after it has fetched their lists, which a fresh machine has not done.
    await execa("apt-get", ["update", "-q"]);
    mirror = await queryMirror(codename);
  }
  if (mirror === undefined) throw new Error(`apt knows no Debian mirror with main for "${codename}"`);
  const releases = releasesWithDependencies[packageSet] ?? [packageSet.replace(/-.*/, "")];
  const config = await privateApt(workDir, mirror, releases, architectures[packageSet]);
  const env = { APT_CONFIG: config, DEBIAN_FRONTEND: "noninteractive" };
  await execa("apt-get", ["update", "--error-on=any"], { env });
  // The private apt has no record of installed packages, so it downloads all dependencies.
  const installArgs = ["install", "--download-only", "--yes", "--no-install-recommends", `-t=${releases.at(-1)}`];
  const command = packageSet in releasesWithDependencies ? installArgs : ["download"];
  await execa("apt-get", [...command, ...packageNames[packageSet]], { env, cwd: join(workDir, "debs") });
}

async function queryMirror(codename: string): Promise<string | undefined> {
  const format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
  const { stdout } = await execa("apt-get", ["indextargets", "--format", format, "Created-By: Packages"]);
  return pickMirror(stdout, codename);
}

/**
 * Finds the mirror in the output of `apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)'`: the URL that
 * serves the component main of this machine's release. Undefined if there is none.
 */
export function pickMirror(targets: string, codename: string): string | undefined {
  const rows = targets.split("\n").map((line) => line.split(" "));
  return rows.find(([, release, component]) => release === codename && component === "main")?.[0];
}

/**
 * Configures an apt with its own lists, cache and sources below `workDir`. The machine's apt.conf.d (a proxy) still
 * applies.
 */
async function privateApt(
  workDir: string,
  mirror: string,
  releases: readonly string[],
  architecture: string | undefined,
): Promise<string> {
  const folders = ["debs/partial", "state/lists/partial", "cache", "root"];
  for (const folder of folders) await mkdir(join(workDir, folder), { recursive: true, mode: 0o755 });
  const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
  const sources = releases.map((release) => `deb [signed-by=${keyring}] ${mirror} ${release} main\n`);
  await writeFile(join(workDir, "sources.list"), sources.join(""));
  await writeFile(join(workDir, "state/status"), "");
  const config = join(workDir, "apt.conf");
  await writeFile(
    config,
    `Dir::State "${workDir}/state/";
Dir::State::status "${workDir}/state/status";
Dir::Cache "${workDir}/cache/";
Dir::Cache::archives "${workDir}/debs/";
Dir::Etc::sourcelist "${workDir}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
APT::Sandbox::User "root";
${architecture === undefined ? "" : `APT::Architecture "${architecture}";\nAPT::Architectures { "${architecture}"; };\n`}`,
  );
  return config;
}

async function unpack(workDir: string, root: string): Promise<Record<string, string>> {
  const versions: Record<string, string> = {};
  for (const file of new Bun.Glob("*.deb").scanSync({ cwd: join(workDir, "debs"), absolute: true })) {
    await execa("dpkg", ["-x", file, root]);
    const { stdout } = await execa("dpkg-deb", ["--show", "--showformat", "$" + "{Package} $" + "{Version}", file]);
    const [name = "", version = ""] = stdout.split(" ");
    versions[name] = version;
  }
  await writeFile(join(root, "versions.json"), `${JSON.stringify(versions, null, 2)}\n`);
  return versions;
}

/** The first `E:` line of apt's error output, or else the first line of the error message. */
function firstError(cause: unknown): string {
  const stderr = cause instanceof Error && "stderr" in cause ? String(cause.stderr) : "";
  const line = stderr.split("\n").find((one) => one.startsWith("E:"));
  return line ?? (cause instanceof Error ? (cause.message.split("\n")[0] ?? "") : String(cause));
}
