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

test("root on Debian is not refused", () => {
  expect(refuse(debian)).toBeUndefined();
});

test.each([
  ["another distribution", { osRelease: 'PRETTY_NAME="Fedora Linux 44"\nID=fedora\n' }, "and this is Fedora Linux 44"],
  ["a relative of Debian", { osRelease: 'PRETTY_NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n' }, "and this is Ubuntu"],
  ["a Debian without apt", { hasApt: false }, "by apt-get and dpkg"],
  ["an ordinary user", { uid: 1000 }, "only root may make: run this as root"],
])("%s is refused in one line that says why and what works all the same", (_, change, reason) => {
  const line = refuse({ ...debian, ...change });
  expect(line).toContain(reason);
  expect(line).toContain("`npm run check` and `npm run build` work here all the same");
  expect(line).not.toContain("\n");
});

test("another system is refused without a promise that nobody has tried", () => {
  expect(refuse({ ...debian, platform: "darwin", osRelease: "" })).toBe("pods need Linux, and this is darwin");
});

test("whoever may not write to the clone is sent to one of their own", () => {
  const line = refuse({ ...debian, uid: 1000, canBuild: false });
  expect(line).toContain("`npm run check` and `npm run build` work in a clone of your own all the same");
});

const lock = {
  packages: {
    "": { version: "1.0.0" },
    "node_modules/a": { version: "1.0.0" },
    "node_modules/b": { version: "2.0.0" },
    "node_modules/other-platform": { version: "1.0.0", optional: true },
  },
};

test("nothing is missing where all packages have the locked version, whatever other platforms would need", () => {
  expect(missingPackages(lock, lock)).toEqual([]);
  const { "node_modules/other-platform": _, ...own } = lock.packages;
  expect(missingPackages(lock, { packages: own })).toEqual([]);
});

test("a package that is absent or of another version is missing", () => {
  expect(missingPackages(lock, undefined)).toEqual(["node_modules/a", "node_modules/b"]);
  const older = { packages: { ...lock.packages, "node_modules/b": { version: "1.9.0" } } };
  expect(missingPackages(lock, older)).toEqual(["node_modules/b"]);
});

test("no server's name survives in what is printed", () => {
  expect(maskHosts("GET https://mirror.example:8080/a/b and 'http://x.test'")).toBe("GET https://…/a/b and 'http://…'");
});

test("a program is run with its arguments, and its exit code is handed on", async () => {
  const argv = [path, "--no-machine", "cli/build.ts", "--arch", "mips"];
  const { exitCode, stderr } = await execa("node", argv, { reject: false });
  expect([exitCode, stderr]).toEqual([2, 'build: --arch is "mips"; it can be x64 or arm64']);
});
