import type { Scalar } from "./value-node.ts";

const words: ReadonlyMap<string, Scalar> = new Map<string, Scalar>([
  ...["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"].map((word) => [word, true] as const),
  ...["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"].map((word) => [word, false] as const),
  ...["", "~", "null", "Null", "NULL"].map((word) => [word, null] as const),
  ...[".nan", ".NaN", ".NAN"].map((word) => [word, Number.NaN] as const),
  ...[".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"].map((word) => [word, Number.POSITIVE_INFINITY] as const),
  ...["-.inf", "-.Inf", "-.INF"].map((word) => [word, Number.NEGATIVE_INFINITY] as const),
]);
const floatPattern = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const integerPattern = /^([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9]\d*))$/;
const longestNumber = 64;

/**
 * What an unquoted YAML scalar means to the kubelet. It reads YAML 1.1 (`yes` and `off` are booleans, `0644` is octal),
 * but knows no base 60, and leaves timestamps as strings. Rule: go.yaml.in/yaml/v2, resolve.
 */
export function readPlainScalar(text: string): Scalar {
  const word = words.get(text);
  if (word !== undefined) return word;
  if (text.length > longestNumber || !/^[-+.\d]/.test(text)) return text;
  const plain = text.replaceAll("_", "");
  return parseInteger(plain) ?? (floatPattern.test(plain) ? Number(plain) : text);
}

/** An integer in Go's notation (`-1`, `0x1f`, `0b11`, `0o17`, `017`), undefined for any other text. Exact to 2^53. */
export function parseInteger(text: string): number | undefined {
  const [, sign, hex, binary, octal, decimal] = integerPattern.exec(text) ?? [];
  const size = hex
    ? Number.parseInt(hex, 16)
    : binary
      ? Number.parseInt(binary, 2)
      : octal
        ? Number.parseInt(octal, 8)
        : Number(decimal);
  if (Number.isNaN(size)) return undefined;
  return sign === "-" && size !== 0 ? -size : size;
}

const trueWords: readonly string[] = ["1", "t", "T", "true", "TRUE", "True"];
const falseWords: readonly string[] = ["0", "f", "F", "false", "FALSE", "False"];

/** A boolean as a flag writes it, undefined for any other text. Rule: Go, strconv.ParseBool. */
export function parseBoolean(text: string): boolean | undefined {
  if (trueWords.includes(text)) return true;
  return falseWords.includes(text) ? false : undefined;
}
