import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../test/fakes/least-count.ts";
import { parseMountinfo } from "./mounts.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const anyMountinfo = fc
  .array(fc.constantFrom(..." -,/\\\n\t04", " - ", "\\040", "\\777", "36 35 98:0 / ", "rw,noatime"), { maxLength: 60 })
  .map((parts) => parts.join(""));

test(
  "any text is parsed to at most one mount per line",
  () => {
    let nonEmpty = 0;
    const property = fc.property(
      fc.oneof(
        anyMountinfo,
        fc.string({ unit: "binary", maxLength: 300 }),
        anyMountinfo.map((rest) => `36 35 98:0 / /mnt rw - ext4 /dev/sda rw\n${rest}`),
      ),
      (text) => {
        const mounts = parseMountinfo(text);
        expect(mounts.length).toBeLessThanOrEqual(text.split("\n").length);
        for (const { mountPoint, fsType, source, options } of mounts)
          for (const each of [mountPoint, fsType, source, ...options]) expect(each).toBeString();
        if (mounts.length > 0) nonEmpty += 1;
      },
    );
    fc.assert(property, { numRuns });
    expect(nonEmpty).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

/** The kernel's escapes for characters that would end a field. */
const escaped = (text: string) =>
  text.replace(/[ \t\n\\]/g, (letter) => `\\${letter.charCodeAt(0).toString(8).padStart(3, "0")}`);
const word = fc.stringMatching(/^[a-z0-9=.]{1,10}$/);
const mount = fc.record({
  mountPoint: fc.string({ unit: "binary", maxLength: 20 }).map((text) => `/${text}`),
  device: fc.constantFrom("98:0", "0:1234"),
  root: fc.string({ unit: "binary", maxLength: 20 }).map((text) => `/${text}`),
  fsType: word,
  source: fc.string({ unit: "binary", maxLength: 20 }),
  options: fc.array(word, { minLength: 1, maxLength: 4 }),
});
const propagation = fc.constantFrom("", "shared:1 ", "shared:1 master:2 ", "propagate_from:3 unbindable ");

test(
  "a mount in the kernel's format is parsed, whatever its names are",
  () => {
    const property = fc.property(fc.array(fc.tuple(mount, propagation), { maxLength: 5 }), (lines) => {
      const text = lines.map(
        ([{ mountPoint, device, root, fsType, source, options }, optional]) =>
          `36 35 ${device} ${escaped(root)} ${escaped(mountPoint)} ${options.join(",")} ${optional}- ${fsType} ${escaped(source)} rw\n`,
      );
      expect(parseMountinfo(text.join(""))).toEqual(
        lines.map(([each, optional]) => ({ ...each, isShared: optional.includes("shared:") })),
      );
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);
