import { expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../test/fakes/least-count.ts";
import { type ImageReference, parseImageReference } from "./image-reference.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
const longMs = 1_800_000;

const written = ({ name, tag, digest }: ImageReference) =>
  `${name}${tag === undefined ? "" : `:${tag}`}${digest === undefined ? "" : `@${digest}`}`;

const soup = fc
  .array(
    fc.constantFrom(
      ..."aZ09.-_:/@[]+ \n",
      "--",
      "__",
      "a".repeat(100),
      "a-".repeat(100),
      "a.".repeat(100),
      "sha256:",
      "0".repeat(64),
    ),
    { maxLength: 40 },
  )
  .map((parts) => parts.join(""));

const optional = (text: fc.Arbitrary<string>) => fc.option(text, { nil: undefined });
const path = fc
  .array(fc.stringMatching(/^[a-z0-9]{1,8}((\.|_|__|-{1,3})[a-z0-9]{1,8}){0,2}$/), { minLength: 1, maxLength: 4 })
  .map((parts) => parts.join("/"));
const registry = fc
  .tuple(
    fc.oneof(fc.domain(), fc.constantFrom("localhost", "REGISTRY", "[fd00::1]", "192.0.2.1")),
    fc.integer({ min: 1, max: 65_535 }),
    fc.boolean(),
  )
  .map(([host, port, hasPort]) => (hasPort || host === "REGISTRY" ? `${host}:${port}/` : `${host}/`));
const reference = fc.record({
  name: fc
    .tuple(fc.oneof(registry, fc.constant("")), path)
    .map((parts) => parts.join(""))
    .filter((name) => name.length <= 255 && !/^[a-f0-9]{64}$/.test(name)),
  tag: optional(fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}$/)),
  digest: optional(fc.stringMatching(/^sha256:[0-9a-f]{64}$/)),
});

test(
  "any text is rejected or splits into parts that join to it, in linear time",
  () => {
    let accepted = 0;
    const property = fc.property(
      fc.oneof(soup, fc.string({ unit: "binary", maxLength: 300 }), reference.map(written)),
      (text) => {
        const started = performance.now();
        const parts = parseImageReference(text);
        expect(performance.now() - started).toBeLessThan(1_000);
        if (parts === undefined) return;
        accepted += 1;
        expect(written(parts)).toBe(text);
      },
    );
    fc.assert(property, { numRuns });
    expect(accepted).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  longMs,
);

test(
  "a name joined from valid parts splits into them",
  () => {
    fc.assert(
      fc.property(reference, (parts) => expect(parseImageReference(written(parts))).toEqual(parts)),
      { numRuns },
    );
  },
  longMs,
);
