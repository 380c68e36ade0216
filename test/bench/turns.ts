/**
 * Measures all sides once in each turn. They alternate who begins: every second turn has the opposite order, so that
 * neither what a side leaves behind nor a machine that becomes slower favours one of them. The samples of one turn are
 * a pair.
 */
export async function takeTurns<Side extends string, T>(
  sides: readonly Side[],
  turns: number,
  measure: (side: Side, turn: number) => Promise<T>,
): Promise<Readonly<Record<Side, readonly T[]>>> {
  const results = new Map<Side, T[]>(sides.map((side) => [side, []]));
  for (let turn = 0; turn < turns; turn++)
    for (const side of orderOf(sides, turn)) results.get(side)?.push(await measure(side, turn));
  return Object.fromEntries(results) as Record<Side, T[]>;
}

/** The order of the sides in a turn: every second turn has the opposite one. */
export const orderOf = <Side extends string>(sides: readonly Side[], turn: number): readonly Side[] =>
  turn % 2 === 0 ? sides : sides.toReversed();
