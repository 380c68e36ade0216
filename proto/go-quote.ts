const NAMED: Readonly<Record<string, string>> = {
  "\u0007": "\\a",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\v": "\\v",
  '"': '\\"',
  "\\": "\\\\",
};

/** What Go's unicode.IsPrint accepts: letters, marks, numbers, punctuation, symbols and the ASCII space. */
const PRINTABLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$/u;

/** Quotes a text as Go's `%q` does. Rule: Go, strconv.Quote. */
export function quoteGo(text: string): string {
  return `"${[...text.toWellFormed()].map(quoteCharacter).join("")}"`;
}

function quoteCharacter(char: string): string {
  const named = NAMED[char];
  if (named !== undefined) return named;
  if (PRINTABLE.test(char)) return char;
  const point = char.codePointAt(0) ?? 0;
  const hex = point.toString(16);
  if (point < 0x20 || point === 0x7f) return `\\x${hex.padStart(2, "0")}`;
  return point < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\U${hex.padStart(8, "0")}`;
}
