import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { leastCount } from "../../../test/fakes/least-count.ts";
import golden from "../../../test/golden/quantity.json" with { type: "json" };
import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  type ParsedQuantity,
  parseQuantity,
  QuantityError,
  subtractQuantities,
  toMilli,
  toNumber,
  toScaled,
} from "./quantity.ts";

const numRuns = Number(process.env["FUZZ_RUNS"] ?? 1000);
// A busy machine needs ten times the usual millisecond for an input.
const timeoutMs = 5_000 + 10 * numRuns;

interface GoldenRow {
  readonly input: string;
  readonly accepted: boolean;
  readonly canonical?: string;
  readonly format?: string;
  readonly value?: string;
  readonly milli?: string;
}

/** Kubernetes parses these texts without a digit as zero; Berth rejects them. */
const withoutDigits = [".", "+", "-", "m", "Ki"];

/** Decimals above 999E, which Kubernetes formats without their suffix. */
const beyondSuffixes = ["1000E", "1000000000000000000000"];

/** Go's Value() and MilliValue() overflow beyond int64 and round negative numbers inconsistently. */
function isWithinGo(quantity: ParsedQuantity, exponent: number): boolean {
  return quantity.mantissa >= 0n && toScaled(quantity, exponent) < 2n ** 63n;
}

describe("a quantity has Kubernetes' value and canonical form:", () => {
  for (const row of golden as readonly GoldenRow[])
    test(JSON.stringify(row.input), () => {
      if (!row.accepted || withoutDigits.includes(row.input)) {
        expect(() => parseQuantity(row.input)).toThrow(QuantityError);
        return;
      }
      const quantity = parseQuantity(row.input);
      if (!beyondSuffixes.includes(row.input)) expect(formatQuantity(quantity)).toBe(row.canonical!);
      expect(quantity.format as string).toBe(row.format!);
      if (isWithinGo(quantity, 0)) expect(toNumber(quantity)).toBe(Number(row.value));
      if (isWithinGo(quantity, -3)) expect(toMilli(quantity)).toBe(Number(row.milli));
    });

  test("the golden table has the expected rows", () => {
    expect(golden.length).toBeGreaterThan(300);
    expect(golden.filter(({ accepted }) => !accepted).length).toBeGreaterThan(25);
  });
});

describe("differences from Kubernetes:", () => {
  test("a decimal above 1000E keeps its suffix", () => {
    expect(formatQuantity(parseQuantity("1000E"))).toBe("1000E");
  });

  test("a negative fraction is always rounded away from zero", () => {
    expect([toNumber(parseQuantity("-0.1n")), toNumber(parseQuantity("-1500m"))]).toEqual([-1, -2]);
    expect(toNumber(parseQuantity("-1Pi"))).toBe(-(1024 ** 5));
  });

  test("a text that would be expensive to compute with is rejected", () => {
    expect(() => parseQuantity("9".repeat(1_000_000))).toThrow("it is longer than 128 characters");
    expect(() => parseQuantity("1e1000000000")).toThrow("its exponent is larger than 100");
    expect(formatQuantity(parseQuantity("1e-1000000000"))).toBe("1e-9");
  });
});

describe("an error states the problem:", () => {
  const rows: readonly (readonly [text: string, message: string])[] = [
    ["", '"" is not a quantity: it does not begin with a number'],
    ["abc", '"abc" is not a quantity: it does not begin with a number'],
    ["1 Gi", '" Gi" is none of the suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei'],
    ["1GB", '"GB" is none of the suffixes'],
  ];
  for (const [text, message] of rows)
    test(JSON.stringify(text), () => {
      expect(() => parseQuantity(text)).toThrow(message);
    });
});

test("parseQuantity accepts a JSON number", () => {
  expect([0.5, 2, 1e21, 1.5e-7].map((number) => formatQuantity(parseQuantity(number)))).toEqual([
    "500m",
    "2",
    "1e21",
    "150e-9",
  ]);
});

describe("for all quantities", () => {
  const suffix = fc.constantFrom(
    "",
    "n",
    "u",
    "m",
    "k",
    "M",
    "G",
    "T",
    "P",
    "E",
    "Ki",
    "Mi",
    "Gi",
    "Ti",
    "Pi",
    "e3",
    "E-5",
  );
  const text = fc
    .tuple(
      fc.constantFrom("", "-", "+"),
      fc.bigInt({ min: 0n, max: 10n ** 20n }),
      fc.constantFrom("", ".5", ".001", ".123456789"),
      suffix,
    )
    .map((parts) => parts.join(""));
  const quantity = text.map(parseQuantity);
  const isEqual = (a: ParsedQuantity, b: ParsedQuantity) => compareQuantities(a, b) === 0;

  test(
    "the canonical form parses to the same number and is its own canonical form",
    () => {
      fc.assert(
        fc.property(quantity, (a) => {
          const canonical = formatQuantity(a);
          expect(isEqual(parseQuantity(canonical), a)).toBe(true);
          expect(formatQuantity(parseQuantity(canonical))).toBe(canonical);
        }),
        { numRuns },
      );
    },
    timeoutMs,
  );

  test(
    "addition is commutative and subtraction reverses it",
    () => {
      fc.assert(
        fc.property(quantity, quantity, quantity, (a, b, c) => {
          expect(isEqual(addQuantities(a, b), addQuantities(b, a))).toBe(true);
          expect(isEqual(addQuantities(addQuantities(a, b), c), addQuantities(a, addQuantities(b, c)))).toBe(true);
          expect(isEqual(subtractQuantities(addQuantities(a, b), b), a)).toBe(true);
        }),
        { numRuns },
      );
    },
    timeoutMs,
  );

  test(
    "comparison is a total order and agrees with subtraction",
    () => {
      fc.assert(
        fc.property(quantity, quantity, (a, b) => {
          expect(compareQuantities(a, b)).toBe(0 - compareQuantities(b, a));
          expect(Math.sign(Number(subtractQuantities(a, b).mantissa))).toBe(compareQuantities(a, b));
        }),
        { numRuns },
      );
    },
    timeoutMs,
  );

  test(
    "rounding goes away from zero by less than one",
    () => {
      fc.assert(
        fc.property(quantity, fc.integer({ min: -12, max: 6 }), (a, exponent) => {
          const unit = { mantissa: 1n, exponent, format: a.format } as const;
          const rounded = { mantissa: toScaled(a, exponent), exponent, format: a.format };
          const error = subtractQuantities(rounded, a);
          expect(compareQuantities(error, unit)).toBe(-1);
          expect(Number(error.mantissa) * Number(a.mantissa)).toBeGreaterThanOrEqual(0);
        }),
        { numRuns },
      );
    },
    timeoutMs,
  );
});

test(
  "any text parses or throws a QuantityError",
  () => {
    const nearly = fc.stringMatching(/^[+-]?[0-9.]{0,40}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,12}$/);
    const usual = fc
      .tuple(
        fc.constantFrom("", "-", "+", "."),
        fc.nat(),
        fc.constantFrom("", ".", ".5"),
        fc.constantFrom("", "m", "Ki", "G", "e3", "x"),
      )
      .map((parts) => parts.join(""));
    let parsed = 0;
    fc.assert(
      fc.property(fc.oneof(fc.string(), nearly, usual), (input) => {
        try {
          formatQuantity(parseQuantity(input));
          parsed += 1;
        } catch (error) {
          expect(error).toBeInstanceOf(QuantityError);
        }
      }),
      { numRuns },
    );
    expect(parsed).toBeGreaterThanOrEqual(leastCount(numRuns, 20));
  },
  timeoutMs,
);
