/**
 * How many pods come or end at once where a test needs many of them: forty in `npm test`, a hundred in `npm run test:extended`.
 */
export const MANY_PODS = Number(process.env["BERTH_MANY_PODS"] ?? 40);
