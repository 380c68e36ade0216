import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { createProgramPageRelease, unchangedMappings } from "./release-memory.ts";

const smaps = (...parts: readonly (readonly [head: string, anonymousKb: number])[]) =>
  parts
    .map(([head, kb]) => `${head}\nSize:  8 kB\nRss:   8 kB\nAnonymous:   ${kb} kB\nVmFlags: rd mr mw me\n`)
    .join("");

test("only unchanged read-only mappings of the program's file are released", () => {
  const text = smaps(
    ["00200000-00203000 r--p 00000000 fe:00 7   /opt/my berth", 0],
    ["00400000-00405000 r-xp 00003000 fe:00 7   /opt/my berth", 0],
    ["00600000-00601000 rw-p 00008000 fe:00 7   /opt/my berth", 0],
    ["00700000-00701000 r--p 00009000 fe:00 7   /opt/my berth", 4],
    ["7f0000000000-7f0000001000 r-xp 00000000 fe:00 8   /lib/libc.so.6", 0],
    ["7f0000002000-7f0000003000 r-xp 00000000 00:00 0", 0],
    ["7f0000004000-7f0000005000 r-xp 00000000 00:00 0   [vdso]", 0],
  );
  expect(unchangedMappings(text, "/opt/my berth")).toEqual([
    { address: 0x200000, length: 0x3000 },
    { address: 0x400000, length: 0x5000 },
  ]);
  expect(unchangedMappings("", "/opt/my berth")).toEqual([]);
});

test("the program continues after its pages were released, each time with less memory", () => {
  const residentKb = () => Number(/^Rss:\s+(\d+)/m.exec(readFileSync("/proc/self/smaps_rollup", "utf8"))?.[1]);
  const releaseProgramPages = createProgramPageRelease();
  for (let time = 0; time < 3; time++) {
    expect(JSON.parse(JSON.stringify({ it: ["goes", "on"] }))).toEqual({ it: ["goes", "on"] });
    // Reads much of the program.
    new Intl.DateTimeFormat("de", { dateStyle: "full" }).format(new Date(0));
    const before = residentKb();
    releaseProgramPages();
    expect(residentKb()).toBeLessThan(before);
  }
});
