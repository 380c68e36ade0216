import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

// `npm ci` rejects a lock file that lacks an optional dependency, even one for another platform, and npm writes such a
// file if its registry mirror has only the packages of the current platform. After adding a dependency there, run:
//
//   bun test/lock.ts

/** The fields of a package in package-lock.json that this script reads. */
interface LockedPackage {
  readonly version?: string;
  readonly dev?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

export interface Lock {
  readonly packages: Readonly<Record<string, LockedPackage>>;
}

const systems = ["aix", "android", "darwin", "freebsd", "linux", "netbsd", "openbsd", "openharmony", "sunos", "win32"];
const processors: Readonly<Record<string, string>> = {
  aarch64: "arm64",
  arm: "arm",
  arm64: "arm64",
  armv7: "arm",
  ia32: "ia32",
  ppc64: "ppc64",
  riscv64: "riscv64",
  s390x: "s390x",
  x64: "x64",
};

/** The missing entries of optional dependencies, by their key in `packages`. */
export function missingOptionals(lock: Lock): Readonly<Record<string, object>> {
  const missing = Object.entries(lock.packages).flatMap(([path, { optionalDependencies = {}, dev }]) =>
    Object.entries(optionalDependencies)
      .filter(([name]) => !(`node_modules/${name}` in lock.packages || `${path}/node_modules/${name}` in lock.packages))
      .map(([name, version]) => [
        `node_modules/${name}`,
        { version, ...(dev === true && { dev }), optional: true, ...platformOf(name) },
      ]),
  );
  return Object.fromEntries(missing) as Readonly<Record<string, object>>;
}

/** The platform that a package's name implies, in npm's fields. */
export function platformOf(name: string): {
  readonly os?: string[];
  readonly cpu?: string[];
  readonly libc?: string[];
} {
  const parts = name.slice(name.lastIndexOf("/") + 1).split("-");
  const os = systems.find((system) => parts.includes(system));
  const cpu = parts.map((word) => processors[word]).find((found) => found !== undefined);
  const libc = parts.some((word) => word.startsWith("musl")) ? "musl" : undefined;
  return { ...(os && { os: [os] }), ...(cpu && { cpu: [cpu] }), ...(libc && { libc: [libc] }) };
}

if (import.meta.main) {
  const path = join(import.meta.dirname, "..", "package-lock.json");
  const lock = JSON.parse(await readFile(path, "utf8")) as Lock;
  const packages = Object.entries({ ...lock.packages, ...missingOptionals(lock) });
  const sorted = Object.fromEntries(packages.sort(([a], [b]) => (a < b ? -1 : 1)));
  await writeFile(path, `${JSON.stringify({ ...lock, packages: sorted }, null, 2)}\n`);
}
