import { expect, test } from "bun:test";
import { execa } from "execa";
import { type TarEntry, writeTar } from "./tar.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const entries: readonly TarEntry[] = [
  { path: "bin", kind: "folder" },
  { path: "bin/program", kind: "file", bytes: bytes("#!"), mode: 0o755 },
  { path: "bin/alias", kind: "symlink", target: "program" },
  { path: "tmp", kind: "folder", mode: 0o1777 },
];

test("GNU tar reads back every kind of entry with its mode, owner, size and target", async () => {
  const { stdout } = await execa("tar", ["--list", "--verbose", "--numeric-owner", "--utc", "--file=-"], {
    input: writeTar(entries),
  });
  expect(stdout.replaceAll(/ +/g, " ").split("\n")).toEqual([
    "drwxr-xr-x 0/0 0 1970-01-01 00:00 bin/",
    "-rwxr-xr-x 0/0 2 1970-01-01 00:00 bin/program",
    "lrwxrwxrwx 0/0 0 1970-01-01 00:00 bin/alias -> program",
    "drwxrwxrwt 0/0 0 1970-01-01 00:00 tmp/",
  ]);
});

test("the content of a file is read back, also when it fills its last block exactly", async () => {
  const content = "x".repeat(1024);
  const archive = writeTar([{ path: "full", kind: "file", bytes: bytes(content) }]);
  const { stdout } = await execa("tar", ["--extract", "--to-stdout", "--file=-"], { input: archive });
  expect(stdout).toBe(content);
});

test("equal entries give equal bytes", () => {
  expect(writeTar(entries)).toEqual(writeTar(structuredClone(entries)));
});

test("writeTar refuses a path that is too long", () => {
  const path = "a".repeat(101);
  expect(() => writeTar([{ path, kind: "file", bytes: bytes("") }])).toThrow("longer than 100 bytes");
});
