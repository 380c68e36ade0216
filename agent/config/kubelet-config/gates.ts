import { nearestName } from "../../../proto/nearest-name.ts";
import { type FeatureGate, type FeatureGateName, featureGates, heededGates } from "./feature-gates.ts";

export type Gates = Readonly<Record<FeatureGateName, boolean>>;

const known: ReadonlyMap<string, FeatureGate> = new Map(Object.entries(featureGates));

/** Every gate's value: as set, else as AllAlpha or AllBeta say for its stage, else its default. */
export function resolveGates(set: ReadonlyMap<string, boolean>): Gates {
  const ofStage = { alpha: set.get("AllAlpha"), beta: set.get("AllBeta"), ga: undefined, deprecated: undefined };
  const resolved = [...known].map(([name, gate]) => [name, set.get(name) ?? ofStage[gate.stage] ?? gate.default]);
  return Object.fromEntries(resolved);
}

/** Why a gate cannot be set to a value; undefined where it can. */
export function refuseGate(name: string, value: boolean): string | undefined {
  const gate = known.get(name);
  if (gate?.locked && value !== gate.default) return `found ${value}, must be ${gate.default}: the gate is locked`;
  if (gate !== undefined) return undefined;
  const nearest = nearestName(name, [...known.keys()]);
  return `unknown feature gate${nearest === undefined ? "" : `, did you mean ${nearest}?`}`;
}

/** True for a known gate that was set away from its default although nothing in the agent heeds it. */
export function hasNoEffect(name: string, value: boolean): boolean {
  const gate = known.get(name);
  return gate !== undefined && gate.default !== value && !heededGates.has(name);
}
