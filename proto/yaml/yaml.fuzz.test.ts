import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../test/fakes/least-count.ts";
import { YamlError } from "./error.ts";
import { parseYaml } from "./parse.ts";
import { toJson } from "./value-node.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const soup = fc
  .array(
    fc.constantFrom(
      ..."[]{}:,&*!|>-?#%@`\"' \n\t\r\u00e9\u2028\u0000ab0.<~",
      ": ",
      "- ",
      "\n  ",
      "&a",
      "*a",
      "<<: ",
      "---\n",
      "!!int ",
    ),
    { maxLength: 60 },
  )
  .map((parts) => parts.join(""));

test(
  "any text parses or throws a YamlError",
  () => {
    let parsed = 0;
    const property = fc.property(fc.oneof(soup, fc.string({ unit: "binary", maxLength: 200 })), (text) => {
      try {
        parseYaml(text, "f");
        parsed += 1;
      } catch (error) {
        if (!(error instanceof YamlError)) throw error;
      }
    });
    fc.assert(property, { numRuns });
    expect(parsed).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

test(
  "parseYaml reads JSON as its value",
  () => {
    const property = fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      const node = parseYaml(JSON.stringify(value), "f");
      // Go has no negative zero.
      expect(JSON.stringify(node && toJson(node))).toBe(JSON.stringify(value));
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);
