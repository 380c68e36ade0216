import { truncateText } from "../../truncate-text.ts";
import type { Quantity as QuantityText } from "../gen/types.ts";

/** The notation of a quantity, which formatting preserves: `12M`, `12Mi` or `12e6`. */
export type QuantityFormat = "DecimalSI" | "BinarySI" | "DecimalExponent";

/** An exact number: `mantissa` × 10 ^ `exponent`. The mantissa never ends in a decimal zero; zero is 0 × 10 ^ 0. */
export interface ParsedQuantity {
  readonly mantissa: bigint;
  readonly exponent: number;
  readonly format: QuantityFormat;
}

/** Messages show the beginning of a longer text. */
const MAX_SHOWN_LENGTH = 40;

/** A text is not a quantity. The message contains the text and the problem. */
export class QuantityError extends Error {
  override readonly name = "QuantityError";

  readonly text: string;
  readonly problem: string;

  constructor(text: string, problem: string) {
    super(`${JSON.stringify(truncateText(text, MAX_SHOWN_LENGTH))} is not a quantity: ${problem}`);
    this.text = text;
    this.problem = problem;
  }
}

const decimalSuffixes: ReadonlyMap<string, number> = new Map([
  ["n", -9],
  ["u", -6],
  ["m", -3],
  ["", 0],
  ["k", 3],
  ["M", 6],
  ["G", 9],
  ["T", 12],
  ["P", 15],
  ["E", 18],
]);
const binarySuffixes: readonly string[] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const MIN_EXPONENT = -9;
const MAX_BINARY: ParsedQuantity = { mantissa: 2n ** 63n - 1n, exponent: 0, format: "BinarySI" };

/**
 * Kubernetes accepts texts and exponents of any length. No real quantity is this large, and arithmetic on a number with
 * a million digits would block the agent.
 */
const MAX_TEXT_LENGTH = 128;
const MAX_WRITTEN_EXPONENT = 100;

/** With any number of `MAX_TEXT_LENGTH` digits before it, the result is below one nano. */
const MIN_WRITTEN_EXPONENT = -2 * MAX_TEXT_LENGTH;

export const ZERO: ParsedQuantity = { mantissa: 0n, exponent: 0, format: "DecimalSI" };
const one: ParsedQuantity = { mantissa: 1n, exponent: 0, format: "DecimalSI" };
const kibi: ParsedQuantity = { mantissa: 1024n, exponent: 0, format: "DecimalSI" };

/**
 * Parses a quantity as the API does: `0.5`, `500m`, `1Gi`, `1e3`, `-2`, and the JSON numbers of a manifest. Rounds away
 * from zero to a nano, so that a small request does not become nothing; clamps binary quantities to 2^63-1. Throws
 * QuantityError. Rule: apimachinery, resource.ParseQuantity, except that a text without a digit is invalid and not
 * zero.
 */
export function parseQuantity(input: QuantityText | number): ParsedQuantity {
  const text = String(input);
  if (text.length > MAX_TEXT_LENGTH) throw new QuantityError(text, `it is longer than ${MAX_TEXT_LENGTH} characters`);
  const [, sign, integer = "", , fraction = "", suffix = ""] = /^([+-]?)(\d*)(\.(\d*))?(.*)$/s.exec(text) ?? [];
  if (integer === "" && fraction === "") throw new QuantityError(text, "it does not begin with a number");
  const unit = readSuffix(text, suffix);
  const exact = normalize(BigInt(integer + fraction) * unit.factor, unit.exponent - fraction.length, unit.format);
  const rounded =
    exact.exponent < MIN_EXPONENT ? normalize(toScaled(exact, MIN_EXPONENT), MIN_EXPONENT, unit.format) : exact;
  const limited = unit.format === "BinarySI" ? limitBinary(rounded) : rounded;
  return sign === "-" ? negateQuantity(limited) : limited;
}

function readSuffix(text: string, suffix: string): { factor: bigint; exponent: number; format: QuantityFormat } {
  const decimal = decimalSuffixes.get(suffix);
  if (decimal !== undefined) return { factor: 1n, exponent: decimal, format: "DecimalSI" };
  const binary = binarySuffixes.indexOf(suffix);
  if (binary !== -1) return { factor: 1024n ** BigInt(binary), exponent: 0, format: "BinarySI" };
  const exponent = Number(/^[eE]([+-]?\d+)$/.exec(suffix)?.[1]);
  if (Number.isNaN(exponent)) throw new QuantityError(text, unknownSuffix(suffix));
  if (exponent > MAX_WRITTEN_EXPONENT)
    throw new QuantityError(text, `its exponent is larger than ${MAX_WRITTEN_EXPONENT}`);
  return { factor: 1n, exponent: Math.max(exponent, MIN_WRITTEN_EXPONENT), format: "DecimalExponent" };
}

function unknownSuffix(suffix: string): string {
  const suffixes = [...decimalSuffixes.keys(), ...binarySuffixes].filter((known) => known !== "");
  return `${JSON.stringify(truncateText(suffix, MAX_SHOWN_LENGTH))} is none of the suffixes ${suffixes.join(", ")} and no exponent such as e3`;
}

/** Clamps a non-negative binary quantity to 2^63-1. Below one it has no binary notation, so it becomes decimal. */
function limitBinary(quantity: ParsedQuantity): ParsedQuantity {
  if (compareQuantities(quantity, MAX_BINARY) > 0) return MAX_BINARY;
  return quantity.mantissa > 0n && compareQuantities(quantity, one) < 0
    ? { ...quantity, format: "DecimalSI" }
    : quantity;
}

/**
 * Formats a quantity canonically: no fraction, no exponent where a suffix exists, the largest suffix with a whole
 * number. `0.5` → `500m`, `1024Mi` → `1Gi`, `1000` → `1k`. Rule: apimachinery, Quantity.CanonicalizeBytes, except above
 * `E`: there it loses the suffix, and here the number grows.
 */
export function formatQuantity(quantity: ParsedQuantity): QuantityText {
  if (quantity.mantissa === 0n) return "0";
  const isSmall = compareQuantities(magnitude(quantity), kibi) < 0;
  if (quantity.format === "BinarySI" && !isSmall && quantity.exponent >= 0) return formatBinary(toScaled(quantity, 0));
  const steps = Math.floor(quantity.exponent / 3) * 3;
  if (quantity.format === "DecimalExponent") return `${toScaled(quantity, steps)}${steps === 0 ? "" : `e${steps}`}`;
  const exponent = Math.min(steps, 18);
  const suffix = [...decimalSuffixes].find(([, known]) => known === exponent)?.[0] ?? "";
  return `${toScaled(quantity, exponent)}${suffix}`;
}

function formatBinary(value: bigint): QuantityText {
  let number = value;
  let step = 0;
  for (; number % 1024n === 0n && step < binarySuffixes.length - 1; step += 1) number /= 1024n;
  return `${number}${binarySuffixes[step]}`;
}

/** The sum, in the notation of `a` unless `a` is zero. */
export function addQuantities(a: ParsedQuantity, b: ParsedQuantity): ParsedQuantity {
  const exponent = Math.min(a.exponent, b.exponent);
  return normalize(toScaled(a, exponent) + toScaled(b, exponent), exponent, a.mantissa === 0n ? b.format : a.format);
}

/** The difference, in the notation of `a` unless `a` is zero. */
export function subtractQuantities(a: ParsedQuantity, b: ParsedQuantity): ParsedQuantity {
  return addQuantities(a, negateQuantity(b));
}

function negateQuantity(quantity: ParsedQuantity): ParsedQuantity {
  return { ...quantity, mantissa: -quantity.mantissa };
}

/** Negative when `a` is less than `b`, zero when equal, positive otherwise. */
export function compareQuantities(a: ParsedQuantity, b: ParsedQuantity): number {
  const exponent = Math.min(a.exponent, b.exponent);
  const difference = toScaled(a, exponent) - toScaled(b, exponent);
  return difference === 0n ? 0 : difference < 0n ? -1 : 1;
}

/** The quantity in units of 10 ^ `unitExponent`, rounded away from zero: `toScaled(parseQuantity("1.5"), 0)` is 2n. */
export function toScaled({ mantissa, exponent }: ParsedQuantity, unitExponent: number): bigint {
  if (exponent >= unitExponent) return mantissa * 10n ** BigInt(exponent - unitExponent);
  const divisor = 10n ** BigInt(unitExponent - exponent);
  const quotient = mantissa / divisor;
  if (mantissa % divisor === 0n) return quotient;
  return mantissa < 0n ? quotient - 1n : quotient + 1n;
}

/** Thousandths, rounded away from zero: millicores of a cpu quantity. Above 2^53 the nearest number. */
export function toMilli(quantity: ParsedQuantity): number {
  return Number(toScaled(quantity, -3));
}

/** The whole number, rounded away from zero: bytes of a memory quantity. Above 2^53 the nearest number. */
export function toNumber(quantity: ParsedQuantity): number {
  return Number(toScaled(quantity, 0));
}

function magnitude(quantity: ParsedQuantity): ParsedQuantity {
  return quantity.mantissa < 0n ? negateQuantity(quantity) : quantity;
}

function normalize(mantissa: bigint, exponent: number, format: QuantityFormat): ParsedQuantity {
  if (mantissa === 0n) return { mantissa, exponent: 0, format };
  let [shortest, raised] = [mantissa, exponent];
  for (; shortest % 10n === 0n; raised += 1) shortest /= 10n;
  return { mantissa: shortest, exponent: raised, format };
}
