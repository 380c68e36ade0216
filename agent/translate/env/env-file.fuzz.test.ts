import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../test/fakes/least-count.ts";
import { parseEnvFile } from "./env-file.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const soup = fc
  .array(fc.constantFrom(..."='#\n\r \t\0$\\\"", "A=", "B='", "export ", "x", "ä", "\udc80", "A='1'\n"), {
    maxLength: 60,
  })
  .map((parts) => parts.join(""));

test(
  "parseEnvFile returns variables and at most one problem for any text, and appending a line keeps the variables",
  () => {
    let nonEmpty = 0;
    const property = fc.property(
      fc.oneof(
        soup,
        fc.string({ unit: "binary", maxLength: 300 }),
        soup.map((rest) => `A='1'\n${rest}`),
      ),
      (text) => {
        const { variables, problem } = parseEnvFile(text);
        for (const [name, value] of variables) {
          expect(name).toMatch(/^[^=\n#]([^=\n]*[^=\n\t ])?$/);
          expect(value).not.toContain("'");
        }
        if (problem !== undefined) expect(problem).toMatch(/^invalid environment variable format .*line \d+: /);
        const longer = parseEnvFile(`${text}${text.endsWith("\n") ? "" : "\n"}Z='z'\n`);
        for (const [name, value] of variables) expect(longer.variables.get(name)).toBe(value);
        if (variables.size > 0) nonEmpty += 1;
      },
    );
    fc.assert(property, { numRuns });
    expect(nonEmpty).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

const name = fc.stringMatching(/^[A-Za-z_][A-Za-z0-9_.-]{0,20}$/);
const value = fc.string({ unit: "binary", maxLength: 40 }).filter((text) => !/['\r]/.test(text));
const between = fc.constantFrom("", "\n", "# it's a comment\n", " \t\n");

test(
  "parseEnvFile reads back every well-formed file",
  () => {
    const property = fc.property(fc.dictionary(name, value), fc.array(between), (variables, noise) => {
      const lines = Object.entries(variables).map(
        ([key, text], at) => `${noise[at] ?? ""}  ${key}='${text}'${at % 2 === 0 ? "" : " # said"}\n`,
      );
      expect(parseEnvFile(lines.join(""))).toEqual({ variables: new Map(Object.entries(variables)) });
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);
