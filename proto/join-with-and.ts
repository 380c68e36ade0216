/** Joins items for a sentence: `a, b and c`. */
export function joinWithAnd(items: readonly string[]): string {
  return items.join(", ").replace(/, ([^,]*)$/, " and $1");
}
