import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../test/fakes/least-count.ts";
import { meminfoBytes } from "./proc.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const line = fc
  .tuple(fc.constantFrom("MemTotal", "MemTotalX", "MemFree", "VmRSS"), fc.string({ maxLength: 12 }))
  .map(([key, rest]) => `${key}:${rest}`);
/** A line as the kernel writes it, or nearly. */
const nearlyLine = fc
  .tuple(
    fc.constantFrom("MemTotal", "MemFree"),
    fc.constantFrom(":   ", ": ", ":"),
    fc.nat(),
    fc.constantFrom(" kB", " kB ", ""),
  )
  .map((parts) => parts.join(""));
const anyText = fc.oneof(
  {
    weight: 3,
    arbitrary: fc
      .array(fc.oneof(line, { weight: 4, arbitrary: nearlyLine }), { minLength: 1 })
      .map((lines) => lines.join("\n")),
  },
  fc.string({ unit: "binary", maxLength: 200 }),
);

test(
  "any text gives a number of bytes, or 0",
  () => {
    let found = 0;
    const property = fc.property(anyText, (text) => {
      const bytes = meminfoBytes(text, "MemTotal");
      expect(bytes).toBeGreaterThanOrEqual(0);
      if (bytes > 0) found += 1;
    });
    fc.assert(property, { numRuns });
    expect(found).toBeGreaterThanOrEqual(leastCount(numRuns, 50));
  },
  longMs,
);

test(
  "a value is found among all others",
  () => {
    const others = fc.array(line.filter((text) => !text.startsWith("MemTotal:")));
    const property = fc.property(others, others, fc.nat(), (before, after, kibibytes) => {
      const text = [...before, `MemTotal:       ${kibibytes} kB`, ...after].join("\n");
      expect(meminfoBytes(text, "MemTotal")).toBe(kibibytes * 1024);
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);
