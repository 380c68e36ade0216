import type { ResourceList } from "../resource-list.ts";

/**
 * A quantity as Kubernetes' Go code keeps it. The same amount has several forms, since the form depends on how it was
 * written; a static pod's uid depends on the form. Rule: apimachinery, resource.Quantity.
 */
export interface InternalQuantity {
  /** `value` × 10 ^ `scale`, unless there is a decimal. */
  readonly value: bigint;
  readonly scale: number;
  /** For what does not fit: `unscaled` × 10 ^ -`scale`. */
  readonly decimal?: Decimal;
  /** The text as written, if it is canonical and the quantity was not changed since; else empty. */
  readonly text: string;
  readonly format: string;
}

interface Decimal {
  readonly unscaled: bigint;
  readonly scale: number;
}

/** Quantities by the name of the resource. */
export type InternalResourceList = ReadonlyMap<string, InternalQuantity>;

const NANO = -9;
const MILLI = -3;
/** `maxInt64Factors`: the decimal digits that an int64 holds for certain. */
const SAFE_DIGITS = 18;
const MAX_INT64 = 2n ** 63n - 1n;
const MIN_INT64 = -(2n ** 63n);
const WORD_BITS = 64n;

const zero: InternalQuantity = { value: 0n, scale: 0, text: "", format: "" };

const decimalSuffixes: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  "": 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};
/** The powers of two. */
const binarySuffixes: Readonly<Record<string, number>> = { Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 };

interface Suffix {
  readonly format: "DecimalSI" | "BinarySI" | "DecimalExponent";
  readonly exponent: number;
}

function readSuffix(suffix: string): Suffix {
  const decimal = decimalSuffixes[suffix];
  if (decimal !== undefined) return { format: "DecimalSI", exponent: decimal };
  const binary = binarySuffixes[suffix];
  if (binary !== undefined) return { format: "BinarySI", exponent: binary };
  return { format: "DecimalExponent", exponent: Number(suffix.slice(1)) };
}

/** Decodes a text that parseQuantity accepts. Undefined is the zero of Go. Rule: ParseQuantity. */
export function decodeQuantity(written: string | undefined): InternalQuantity {
  if (written === undefined) return zero;
  const text = written.trim();
  if (text === "0") return { ...zero, text, format: "DecimalSI" };
  const [, sign = "", digits = "", fraction = "", suffix = ""] = /^([+-]?)0*(\d*)(?:\.(\d*))?(.*)$/s.exec(text) ?? [];
  // A text of zeros only ends where Go strips the leading zeros: without sign, fraction and suffix.
  if (digits === "" && /^[+-]?0+$/.test(text)) return { ...zero, format: "DecimalSI" };
  const number = { sign, whole: digits || "0", fraction };
  const unit = readSuffix(suffix);
  return decodeInt64(text, number, unit) ?? decodeDecimal(number, unit);
}

interface WrittenNumber {
  readonly sign: string;
  readonly whole: string;
  readonly fraction: string;
}

/** The fast path of ParseQuantity, for what certainly fits into an int64. */
function decodeInt64(text: string, number: WrittenNumber, unit: Suffix): InternalQuantity | undefined {
  const { sign, whole, fraction } = number;
  const isBinary = unit.format === "BinarySI";
  if (isBinary && fraction !== "") return undefined;
  const freeDigits = isBinary
    ? 15 - whole.length - Math.trunc((unit.exponent * 3) / 10) - 1
    : SAFE_DIGITS - whole.length - fraction.length;
  const scale = (isBinary ? 0 : unit.exponent) - fraction.length;
  if (freeDigits < 0 || scale < NANO) return undefined;
  const shifted = whole + fraction;
  const factor = isBinary ? 2n ** BigInt(unit.exponent) : 1n;
  const amount = BigInt(shifted) * factor;
  if (amount > MAX_INT64) return undefined;
  const isCanonical = isBinary
    ? (BigInt(shifted) & 7n) !== 0n
    : scale % 3 === 0 && !shifted.endsWith("000") && !shifted.startsWith("0");
  return { value: sign === "-" ? -amount : amount, scale, text: isCanonical ? text : "", format: unit.format };
}

function decodeDecimal({ sign, whole, fraction }: WrittenNumber, unit: Suffix): InternalQuantity {
  const isBinary = unit.format === "BinarySI";
  const factor = isBinary ? 2n ** BigInt(unit.exponent) : 1n;
  const exact = {
    unscaled: BigInt(whole + fraction) * factor,
    scale: fraction.length - (isBinary ? 0 : unit.exponent),
  };
  let decimal = exact.unscaled === 0n ? exact : roundDecimal(exact, -NANO);
  let format: string = unit.format;
  if (isBinary && compareDecimals(decimal, { unscaled: MAX_INT64, scale: 0 }) > 0)
    decimal = { unscaled: MAX_INT64, scale: 0 };
  if (isBinary && decimal.unscaled > 0n && compareDecimals(decimal, { unscaled: 1n, scale: 0 }) < 0)
    format = "DecimalSI";
  return { ...zero, decimal: sign === "-" ? { ...decimal, unscaled: -decimal.unscaled } : decimal, format };
}

/** Rounds up to a thousandth, away from zero. Rule: SetDefaults_ResourceList, Quantity.RoundUp. */
export function roundQuantity(quantity: InternalQuantity): InternalQuantity {
  const { value, scale, decimal } = quantity;
  if (decimal !== undefined) return { ...quantity, text: "", decimal: roundDecimal(decimal, -MILLI) };
  if (scale >= MILLI) return quantity;
  return { ...quantity, text: "", value: divideAwayFromZero(value, 10n ** BigInt(MILLI - scale)), scale: MILLI };
}

/** Rule: Quantity.Add. */
export function addInternalQuantities(a: InternalQuantity, b: InternalQuantity): InternalQuantity {
  const format = isZero(a) ? b.format : a.format;
  if (a.decimal === undefined && b.decimal === undefined) {
    const sum = addInt64(a, b);
    if (sum !== undefined) return { ...sum, text: "", format };
  }
  const [left, right] = [toDecimal(a), toDecimal(b)];
  const scale = Math.max(left.scale, right.scale);
  return { ...zero, decimal: { unscaled: rescale(left, scale) + rescale(right, scale), scale }, format };
}

/** Rule: int64Amount.Add. Undefined: the sum does not fit. */
function addInt64(a: InternalQuantity, b: InternalQuantity): Pick<InternalQuantity, "value" | "scale"> | undefined {
  if (b.value === 0n) return { value: a.value, scale: a.scale };
  if (a.value === 0n) return { value: b.value, scale: b.scale };
  const scale = Math.min(a.scale, b.scale);
  const terms = [a, b].map((term) => term.value * 10n ** BigInt(term.scale - scale));
  const value = terms.reduce((sum, term) => sum + term, 0n);
  return [...terms, value].every(isInt64) ? { value, scale } : undefined;
}

/**
 * The larger quantity, as Go's loop over maxima leaves it: `next` replaces `current` if it is larger, and has become a
 * decimal if the other one is. Rule: component-helpers, maxResourceList.
 */
export function maxInternalQuantity(current: InternalQuantity, next: InternalQuantity): InternalQuantity {
  if (compareDecimals(toDecimal(next), toDecimal(current)) <= 0) return current;
  if (current.decimal === undefined) return next;
  return { ...next, value: 0n, scale: 0, decimal: toDecimal(next) };
}

/** The quantities of a resource list of the API, in the form of {@link decodeQuantity}. */
export function decodeResourceList(list: ResourceList = {}): InternalResourceList {
  return new Map(Object.entries(list).map(([name, text]) => [name, decodeQuantity(text)]));
}

/** The fields of a quantity as {@link dumpInternalPod} prints those of a struct, without its type. */
export function dumpQuantity({ value, scale, decimal, text, format }: InternalQuantity): string {
  const amount = `i:(resource.int64Amount){value:(int64)${value} scale:(resource.Scale)${scale}}`;
  const dec = `d:(resource.infDecAmount){Dec:(*inf.Dec)${decimal === undefined ? "<nil>" : dumpDecimal(decimal)}}`;
  return `{${amount} ${dec} s:(string)${text} Format:(resource.Format)${format}}`;
}

function dumpDecimal({ unscaled, scale }: Decimal): string {
  const words: bigint[] = [];
  for (let rest = unscaled < 0n ? -unscaled : unscaled; rest > 0n; rest >>= WORD_BITS)
    words.push(BigInt.asUintN(Number(WORD_BITS), rest));
  const abs = words.length === 0 ? "<nil>" : `[${words.join(" ")}]`;
  return `{unscaled:(big.Int){neg:(bool)${unscaled < 0n} abs:(big.nat)${abs}} scale:(inf.Scale)${scale}}`;
}

function isZero({ value, decimal }: InternalQuantity): boolean {
  return decimal === undefined ? value === 0n : decimal.unscaled === 0n;
}

function isInt64(value: bigint): boolean {
  return value >= MIN_INT64 && value <= MAX_INT64;
}

function toDecimal({ value, scale, decimal }: InternalQuantity): Decimal {
  return decimal ?? { unscaled: value, scale: -scale };
}

/** The unscaled value at a scale that is not smaller. */
function rescale({ unscaled, scale }: Decimal, to: number): bigint {
  return unscaled * 10n ** BigInt(to - scale);
}

function compareDecimals(a: Decimal, b: Decimal): number {
  const scale = Math.max(a.scale, b.scale);
  const difference = rescale(a, scale) - rescale(b, scale);
  return difference === 0n ? 0 : difference < 0n ? -1 : 1;
}

function roundDecimal(decimal: Decimal, scale: number): Decimal {
  if (decimal.scale <= scale) return { unscaled: rescale(decimal, scale), scale };
  return { unscaled: divideAwayFromZero(decimal.unscaled, 10n ** BigInt(decimal.scale - scale)), scale };
}

function divideAwayFromZero(value: bigint, divisor: bigint): bigint {
  const quotient = value / divisor;
  if (value % divisor === 0n) return quotient;
  return value < 0n ? quotient - 1n : quotient + 1n;
}
