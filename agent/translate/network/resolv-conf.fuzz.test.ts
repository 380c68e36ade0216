import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../test/fakes/least-count.ts";
import { parseResolvConf } from "./resolv-conf.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const soup = fc
  .array(
    fc.constantFrom(
      ..."#;.: \t\r\n\u00a0\u2028\u0000",
      "nameserver",
      "nameserver ",
      "search ",
      "options ",
      "10.0.0.10",
      "fd00::1",
      "cluster.local.",
      "ndots:5",
    ),
    { maxLength: 60 },
  )
  .map((parts) => parts.join(""));

test(
  "parseResolvConf returns single words for any text",
  () => {
    let nonEmpty = 0;
    const property = fc.property(
      fc.oneof(
        soup,
        fc.string({ unit: "binary", maxLength: 300 }),
        soup.map((rest) => `nameserver 10.0.0.10\n${rest}`),
      ),
      (text) => {
        const { nameservers, searches, options } = parseResolvConf(text);
        for (const word of [...nameservers, ...searches, ...options]) expect(word).toMatch(/^[^\s#;]+$/);
        if (nameservers.length + searches.length + options.length > 0) nonEmpty += 1;
      },
    );
    fc.assert(property, { numRuns });
    expect(nonEmpty).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

const gap = fc.constantFrom(" ", "\t", "  ", " \t ");
const noise = fc.constantFrom("", "# nameserver 192.0.2.9", "; search no.example", "sortlist 192.0.2.0", "   ");
const domain = fc.domain().filter((text) => !/[#;]/.test(text));
const option = fc.constantFrom("ndots:2", "rotate", "timeout:1", "edns0");

test(
  "parseResolvConf reads all nameservers and options and the last search line, despite comments and blanks",
  () => {
    const words = (keyword: string, word: fc.Arbitrary<string>) =>
      fc.tuple(fc.constant(keyword), fc.array(word, { maxLength: 4 }));
    const line = fc.oneof(
      fc.tuple(
        fc.constant("nameserver"),
        fc.oneof(fc.ipV4(), fc.ipV6()).map((address) => [address]),
      ),
      words("search", domain),
      words("options", option),
    );
    const property = fc.property(fc.array(fc.tuple(line, gap, noise), { maxLength: 10 }), (lines) => {
      const text = lines.map(([[keyword, values], space, other]) => `${[keyword, ...values].join(space)} \n${other}\n`);
      const last = (keyword: string) => lines.findLast(([[word]]) => word === keyword)?.[0][1] ?? [];
      expect(parseResolvConf(text.join(""))).toEqual({
        nameservers: lines.flatMap(([[keyword, values]]) => (keyword === "nameserver" ? values : [])),
        searches: last("search"),
        options: [...new Set(lines.flatMap(([[keyword, values]]) => (keyword === "options" ? values : [])))],
      });
    });
    fc.assert(property, { numRuns });
  },
  longMs,
);
