import { expect, test } from "bun:test";
import { join } from "node:path";
import { execa } from "execa";

interface Setup {
  refuse(machine: {
    platform: string;
    uid: number;
    osRelease: string;
    hasApt: boolean;
    canBuild: boolean;
  }): string | undefined;
  missingPackages(lock: object, installed: object | undefined): readonly string[];
  maskHosts(text: string): string;
}

const path = join(import.meta.dirname, "..", "setup.mjs");
const { refuse, missingPackages, maskHosts } = (await import(path)) as Setup;

const debian = {
  platform: "linux",
  uid: 0,
  osRelease: 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\n',
  hasApt: true,
  canBuild: true,
};

test("setup accepts root on Debian", () => {
  expect(refuse(debian)).toBeUndefined();
});

test.each([
  ["another distribution", { osRelease: 'PRETTY_NAME="Fedora Linux 44"\nID=fedora\n' }, "and this is Fedora Linux 44"],
  ["a relative of Debian", { osRelease: 'PRETTY_NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n' }, "and this is Ubuntu"],
  ["a Debian without apt", { hasApt: false }, "by apt-get and dpkg"],
  ["an ordinary user", { uid: 1000 }, "only root may make: run this as root"],
])("setup rejects %s in one line that says why and what still works", (_, change, reason) => {
  const line = refuse({ ...debian, ...change });
  expect(line).toContain(reason);
  expect(line).toContain("`npm run check` and `npm run build` still work here");
  expect(line).not.toContain("\n");
});

test("setup rejects another operating system without promising what works there", () => {
  expect(refuse({ ...debian, platform: "darwin", osRelease: "" })).toBe("pods need Linux, and this is darwin");
});

test("setup refers a user without write permission to a clone of their own", () => {
  const line = refuse({ ...debian, uid: 1000, canBuild: false });
  expect(line).toContain("`npm run check` and `npm run build` still work in a clone of your own");
});

const lock = {
  packages: {
    "": { version: "1.0.0" },
    "node_modules/a": { version: "1.0.0" },
    "node_modules/b": { version: "2.0.0" },
    "node_modules/other-platform": { version: "1.0.0", optional: true },
  },
};

test("no package is missing if all have the locked version, except optional ones of other platforms", () => {
  expect(missingPackages(lock, lock)).toEqual([]);
  const { "node_modules/other-platform": _, ...own } = lock.packages;
  expect(missingPackages(lock, { packages: own })).toEqual([]);
});

test("an absent package and one of another version are missing", () => {
  expect(missingPackages(lock, undefined)).toEqual(["node_modules/a", "node_modules/b"]);
  const older = { packages: { ...lock.packages, "node_modules/b": { version: "1.9.0" } } };
  expect(missingPackages(lock, older)).toEqual(["node_modules/b"]);
});

test("maskHosts removes server names", () => {
  expect(maskHosts("GET https://mirror.example:8080/a/b and 'http://x.test'")).toBe("GET https://…/a/b and 'http://…'");
});

test("setup runs a program with its arguments and returns its exit code", async () => {
  const argv = [path, "--no-machine", "cli/build.ts", "--arch", "mips"];
  const { exitCode, stderr } = await execa("node", argv, { reject: false });
  expect([exitCode, stderr]).toEqual([2, 'build: --arch is "mips", must be x64 or arm64']);
});
