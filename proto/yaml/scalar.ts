import type { Scalar } from "./value-node.ts";

const scalarKeywords: ReadonlyMap<string, Scalar> = new Map<string, Scalar>([
  ...["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"].map(
    (keyword) => [keyword, true] as const,
  ),
  ...["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"].map(
    (keyword) => [keyword, false] as const,
  ),
  ...["", "~", "null", "Null", "NULL"].map((keyword) => [keyword, null] as const),
  ...[".nan", ".NaN", ".NAN"].map((keyword) => [keyword, Number.NaN] as const),
  ...[".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"].map((keyword) => [keyword, Number.POSITIVE_INFINITY] as const),
  ...["-.inf", "-.Inf", "-.INF"].map((keyword) => [keyword, Number.NEGATIVE_INFINITY] as const),
]);
const floatPattern = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const integerPattern = /^([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9]\d*))$/;
const MAX_NUMBER_LENGTH = 64;

/**
 * Interprets an unquoted scalar as the kubelet does: YAML 1.1 (`yes` and `off` are booleans, `0644` is octal), but no
 * base 60, and timestamps remain strings. Rule: go.yaml.in/yaml/v2, resolve.
 */
export function parsePlainScalar(text: string): Scalar {
  const keyword = scalarKeywords.get(text);
  if (keyword !== undefined) return keyword;
  if (text.length > MAX_NUMBER_LENGTH || !/^[-+.\d]/.test(text)) return text;
  const plain = text.replaceAll("_", "");
  return parseInteger(plain) ?? (floatPattern.test(plain) ? Number(plain) : text);
}

/**
 * Parses an integer in Go's notation (`-1`, `0x1f`, `0b11`, `0o17`, `017`); undefined for any other text. Exact to
 * 2^53.
 */
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

const trueTexts: readonly string[] = ["1", "t", "T", "true", "TRUE", "True"];
const falseTexts: readonly string[] = ["0", "f", "F", "false", "FALSE", "False"];

/** Parses a boolean flag value; undefined for any other text. Rule: Go, strconv.ParseBool. */
export function parseBoolean(text: string): boolean | undefined {
  if (trueTexts.includes(text)) return true;
  return falseTexts.includes(text) ? false : undefined;
}
