const longestName = 64;

/** The known name that was probably meant: the same but for capitals, or two slips away at most. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  if (name.length > longestName) return undefined;
  const lower = name.toLowerCase();
  const ranked = known
    .map((candidate) => ({ candidate, slips: countSlips(lower, candidate.toLowerCase()) }))
    .sort((a, b) => a.slips - b.slips);
  const best = ranked[0];
  return best !== undefined && best.slips <= Math.min(2, Math.floor(name.length / 3)) ? best.candidate : undefined;
}

/** How many letters have to be put in, left out, changed or swapped with their neighbour to make `b` of `a`. */
function countSlips(a: string, b: string): number {
  let beforeLast: readonly number[] = [];
  let last: readonly number[] = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const isSame = a[row - 1] === b[column - 1];
      const isSwapped = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      const swapped = isSwapped ? at(beforeLast, column - 2) + 1 : Number.POSITIVE_INFINITY;
      const changed = at(last, column - 1) + (isSame ? 0 : 1);
      current.push(Math.min(changed, swapped, at(last, column) + 1, at(current, column - 1) + 1));
    }
    beforeLast = last;
    last = current;
  }
  return at(last, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
