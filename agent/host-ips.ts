import { isIP } from "node:net";

/**
 * The node's addresses: those it is told to have, or else the first of its `own`. `0.0.0.0` and `::` are no addresses; they only
 * say which family is preferred. Rule: the kubelet's `--node-ip`.
 */
export function chooseHostIPs(told: readonly string[], own: readonly string[]): readonly string[] {
  const family = told[0] === "0.0.0.0" ? 4 : told[0] === "::" ? 6 : undefined;
  if (told.length > 0 && family === undefined) return told;
  const chosen = own.find((address) => isIP(address) === family) ?? own[0];
  return chosen === undefined ? [] : [chosen];
}
