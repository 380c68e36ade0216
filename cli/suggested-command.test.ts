import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { programName, withInvocation } from "./suggested-command.ts";

test.each([
  ["berth logs web -c main", "state/kubelet", "berth logs --root-dir state/kubelet web -c main"],
  ["berth exec web -c a -- test -f /b -- c", "/a b", "berth exec --root-dir '/a b' web -c a -- test -f /b -- c"],
  ["berth pods", "it's", "berth pods --root-dir 'it'\\''s'"],
  ["berth pods", "$&", "berth pods --root-dir '$&'"],
  ["which pod? berth pods lists them", "/a", "which pod? berth pods --root-dir /a lists them"],
  ["2 more: berth pods --volumes | less", "/a", "2 more: berth pods --root-dir /a --volumes | less"],
  ["berth cni install, then berth doctor.", "/a", "berth cni install --root-dir /a, then berth doctor --root-dir /a."],
  ["berth exec: no such pod; berth run starts it", "/a", "berth exec: no such pod; berth run starts it"],
  ["berth pods", undefined, "berth pods"],
  ["kubectl get pods", "/a", "kubectl get pods"],
])("%s with the root directory %p", (text, rootDir, expected) => {
  expect(withInvocation(text, { program: "berth", rootDir })).toBe(expected);
});

test.each([
  ["dist/berth", undefined, "run dist/berth doctor as root"],
  ["dist/berth", "state/kubelet", "run dist/berth doctor --root-dir state/kubelet as root"],
  ["/my clone/berth", undefined, "run '/my clone/berth' doctor as root"],
])(
  "a command calls the program %s that the user has called, with the root directory %p",
  (program, rootDir, expected) => {
    expect(withInvocation("run berth doctor as root", { program, rootDir })).toBe(expected);
  },
);

let folder = "";
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-name-")));
  await writeFile(join(folder, "berth"), "");
});
afterEach(() => rm(folder, { recursive: true }));

const nameOf = (argv0: string, which: string | null = null, isCompiled = true) =>
  programName({ argv0, execPath: join(folder, "berth"), isCompiled, which: () => which });

test("a program that the shell has found is called by its name", () => {
  expect(nameOf("berth")).toBe("berth");
});

test("a program that was called by its path, and that the shell does not find, is called by that path", () => {
  expect(nameOf("dist/berth")).toBe("dist/berth");
});

test("a program that was called by its path is called by its name where the shell finds it", async () => {
  await symlink("berth", join(folder, "link"));
  expect(nameOf("/usr/bin/berth", join(folder, "link"))).toBe("berth");
});

test("a program that was called by its path is called by that path where the shell finds another one", async () => {
  await writeFile(join(folder, "installed"), "");
  expect(nameOf("dist/berth", join(folder, "installed"))).toBe("dist/berth");
});

test("a run from source is called berth", () => {
  expect(nameOf("/usr/bin/bun", null, false)).toBe("berth");
});
