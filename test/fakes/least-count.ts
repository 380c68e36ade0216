/** With fewer inputs, as `npm run check` has them, chance decides how many of a rare kind there are. */
const MANY = 1000;

/**
 * How many of `runs` random inputs must be of a kind that is expected to be at least one in `each`, so that a test shows something of that
 * kind; of few inputs one.
 */
export const leastCount = (runs: number, each: number): number => (runs < MANY ? 1 : Math.ceil(runs / each));
