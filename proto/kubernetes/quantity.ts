import type { Quantity as QuantityText } from "./gen/types.ts";

/** How a quantity was written, and so how it is written again: `12M`, `12Mi` or `12e6`. */
export type QuantityFormat = "DecimalSI" | "BinarySI" | "DecimalExponent";

/** An exact number: `mantissa` × 10 ^ `exponent`. The mantissa never ends in a decimal zero; zero is 0 × 10 ^ 0. */
export interface Quantity {
  readonly mantissa: bigint;
  readonly exponent: number;
  readonly format: QuantityFormat;
}

/** A text that is no quantity. The message names the text and what is wrong with it. */
export class QuantityError extends Error {
  override readonly name = "QuantityError";

  readonly text: string;
  readonly problem: string;

  constructor(text: string, problem: string) {
    super(`${JSON.stringify(shorten(text))} is not a quantity: ${problem}`);
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
const finestExponent = -9;
const largestBinary: Quantity = { mantissa: 2n ** 63n - 1n, exponent: 0, format: "BinarySI" };

/**
 * Kubernetes takes texts and exponents of any length. Nothing real is this large, and arithmetic on a number with a
 * million digits would stop the agent.
 */
const longestText = 128;
const largestExponent = 100;

/** Whatever number of `longestText` digits stands before it, the result is less than a nano. */
const smallestExponent = -2 * longestText;

const one: Quantity = { mantissa: 1n, exponent: 0, format: "DecimalSI" };
const kibi: Quantity = { mantissa: 1024n, exponent: 0, format: "DecimalSI" };

/**
 * Reads a quantity as the API does: `0.5`, `500m`, `1Gi`, `1e3`, `-2`, and the JSON numbers of a manifest. What is finer
 * than a nano is rounded away from zero, so that whoever asks for little gets something; binary quantities end at 2^63-1.
 * Throws QuantityError. Rule: apimachinery, resource.ParseQuantity, but for texts without a digit, which it takes as zero.
 */
export function parseQuantity(input: QuantityText | number): Quantity {
  const text = String(input);
  if (text.length > longestText) throw new QuantityError(text, `it is longer than ${longestText} characters`);
  const [, sign, whole = "", , fraction = "", suffix = ""] = /^([+-]?)(\d*)(\.(\d*))?(.*)$/s.exec(text) ?? [];
  if (whole === "" && fraction === "") throw new QuantityError(text, "it does not begin with a number");
  const unit = readSuffix(text, suffix);
  const exact = normalize(BigInt(whole + fraction) * unit.factor, unit.exponent - fraction.length, unit.format);
  const rounded =
    exact.exponent < finestExponent ? normalize(toScaled(exact, finestExponent), finestExponent, unit.format) : exact;
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
  if (exponent > largestExponent) throw new QuantityError(text, `its exponent is larger than ${largestExponent}`);
  return { factor: 1n, exponent: Math.max(exponent, smallestExponent), format: "DecimalExponent" };
}

function unknownSuffix(suffix: string): string {
  const suffixes = [...decimalSuffixes.keys(), ...binarySuffixes].filter((known) => known !== "");
  return `${JSON.stringify(shorten(suffix))} is none of the suffixes ${suffixes.join(", ")} and no exponent such as e3`;
}

/** Binary quantities end at 2^63-1; below one they have no binary form. The quantity is not negative. */
function limitBinary(quantity: Quantity): Quantity {
  if (compareQuantities(quantity, largestBinary) > 0) return largestBinary;
  return quantity.mantissa > 0n && compareQuantities(quantity, one) < 0
    ? { ...quantity, format: "DecimalSI" }
    : quantity;
}

/**
 * The canonical form: no fraction, no exponent where a suffix exists, the largest suffix that keeps the number whole.
 * `0.5` → `500m`, `1024Mi` → `1Gi`, `1000` → `1k`. Rule: apimachinery, Quantity.CanonicalizeBytes; above `E`, where that
 * loses the suffix, the number grows instead.
 */
export function formatQuantity(quantity: Quantity): QuantityText {
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

/** The sum, written like `a` unless `a` is zero. */
export function addQuantities(a: Quantity, b: Quantity): Quantity {
  const exponent = Math.min(a.exponent, b.exponent);
  return normalize(toScaled(a, exponent) + toScaled(b, exponent), exponent, a.mantissa === 0n ? b.format : a.format);
}

/** `a` less `b`, written like `a` unless `a` is zero. */
export function subtractQuantities(a: Quantity, b: Quantity): Quantity {
  return addQuantities(a, negateQuantity(b));
}

function negateQuantity(quantity: Quantity): Quantity {
  return { ...quantity, mantissa: -quantity.mantissa };
}

/** Below zero when `a` is less than `b`, zero when they are equal, above zero otherwise. */
export function compareQuantities(a: Quantity, b: Quantity): number {
  const exponent = Math.min(a.exponent, b.exponent);
  const difference = toScaled(a, exponent) - toScaled(b, exponent);
  return difference === 0n ? 0 : difference < 0n ? -1 : 1;
}

/** The quantity in units of 10 ^ `exponent`, rounded away from zero: `toScaled(parseQuantity("1.5"), 0)` is 2n. */
export function toScaled({ mantissa, exponent }: Quantity, unitExponent: number): bigint {
  if (exponent >= unitExponent) return mantissa * 10n ** BigInt(exponent - unitExponent);
  const divisor = 10n ** BigInt(unitExponent - exponent);
  const quotient = mantissa / divisor;
  if (mantissa % divisor === 0n) return quotient;
  return mantissa < 0n ? quotient - 1n : quotient + 1n;
}

/** Thousandths, rounded away from zero: millicores of a cpu quantity. Above 2^53 the nearest number. */
export function toMilli(quantity: Quantity): number {
  return Number(toScaled(quantity, -3));
}

/** The whole number, rounded away from zero: bytes of a memory quantity. Above 2^53 the nearest number. */
export function toNumber(quantity: Quantity): number {
  return Number(toScaled(quantity, 0));
}

function magnitude(quantity: Quantity): Quantity {
  return quantity.mantissa < 0n ? negateQuantity(quantity) : quantity;
}

function normalize(mantissa: bigint, exponent: number, format: QuantityFormat): Quantity {
  if (mantissa === 0n) return { mantissa, exponent: 0, format };
  let [shortest, raised] = [mantissa, exponent];
  for (; shortest % 10n === 0n; raised += 1) shortest /= 10n;
  return { mantissa: shortest, exponent: raised, format };
}

function shorten(text: string): string {
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
