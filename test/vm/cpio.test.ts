import { expect, test } from "bun:test";
import { writeCpio } from "./cpio.ts";

test("an archive contains each directory once, before its files, in the kernel's format", () => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  const archive = new TextDecoder().decode(
    writeCpio([
      { path: "bin/sh", bytes: bytes("elf"), isProgram: true },
      { path: "bin/text", bytes: bytes("12345") },
    ]),
  );
  expect(archive.length % 4).toBe(0);
  const members = [...archive.matchAll(/070701([0-9A-Fa-f]{104})([^\0]*)\0/g)].map(([, head = "", name = ""]) => [
    name,
    Number.parseInt(head.slice(8, 16), 16).toString(8),
    Number.parseInt(head.slice(48, 56), 16),
  ]);
  expect(members).toEqual([
    ["bin", "40755", 0],
    ["bin/sh", "100755", 3],
    ["bin/text", "100644", 5],
    ["TRAILER!!!", "0", 0],
  ]);
});
