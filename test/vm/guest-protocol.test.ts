import { expect, test } from "bun:test";
import { parseGuestMessage } from "./guest-protocol.ts";

test("readWord parses a message and ignores other lines", () => {
  const message = { kind: "passed", check: "swap", detail: "0" } as const;
  expect(parseGuestMessage(`${JSON.stringify(message)}\r`)).toEqual(message);
  for (const line of ["[    1.0] Kernel panic - not syncing", '{"kind":"pas', "7", "null", "{}", ""])
    expect(parseGuestMessage(line)).toBeUndefined();
});
