import { expect, test } from "bun:test";
import { readWord } from "./guest-protocol.ts";

test("a line of the guest is a word, or the kernel's", () => {
  const word = { kind: "passed", check: "swap", detail: "0" } as const;
  expect(readWord(`${JSON.stringify(word)}\r`)).toEqual(word);
  for (const line of ["[    1.0] Kernel panic - not syncing", '{"kind":"pas', "7", "null", "{}", ""])
    expect(readWord(line)).toBeUndefined();
});
