import { nearestName } from "../../../proto/nearest-name.ts";
import { type FeatureGate, type FeatureGateName, featureGates, implementedGates } from "./feature-gates.ts";
import { gateDependencies } from "./gate-dependencies.ts";

export type Gates = Readonly<Record<FeatureGateName, boolean>>;

const known: ReadonlyMap<string, FeatureGate> = new Map(Object.entries(featureGates));

/** The value of every gate: as set, else as AllAlpha or AllBeta set it for its stage, else its default. */
export function resolveGates(set: ReadonlyMap<string, boolean>): Gates {
  const byStage = { alpha: set.get("AllAlpha"), beta: set.get("AllBeta"), ga: undefined, deprecated: undefined };
  const resolved = [...known].map(([name, gate]) => [name, set.get(name) ?? byStage[gate.stage] ?? gate.default]);
  return Object.fromEntries(resolved);
}

/** The state of a gate. */
interface GateState {
  readonly name: string;
  readonly stage: FeatureGate["stage"];
  readonly isEnabled: boolean;
}

/** The gates that the agent implements: of the others it has nothing that a value could describe. */
export function implementedGateStates(set: ReadonlyMap<string, boolean>): readonly GateState[] {
  const gates = new Map(Object.entries(resolveGates(set)));
  return [...known].flatMap(([name, { stage }]) =>
    implementedGates.has(name) ? [{ name, stage, isEnabled: gates.get(name) === true }] : [],
  );
}

/** The error of setting a gate to a value; undefined when it is allowed. */
export function gateError(name: string, value: boolean): string | undefined {
  const gate = known.get(name);
  if (gate?.locked && value !== gate.default) return `found ${value}, must be ${gate.default}: the gate is locked`;
  if (gate !== undefined) return undefined;
  const nearest = nearestName(name, [...known.keys()]);
  return `unknown feature gate${nearest === undefined ? "" : `, did you mean ${nearest}?`}`;
}

/** The kubelet's words for each gate that is enabled although it needs one that is disabled. */
export function unmetDependencies(gates: Gates): readonly string[] {
  return (Object.keys(gateDependencies) as FeatureGateName[]).flatMap((name) => {
    const disabled = (gateDependencies[name] ?? []).filter((each) => !gates[each]);
    if (!gates[name] || disabled.length === 0) return [];
    return [`${name} is enabled, but depends on features that are disabled: [${disabled.join(" ")}]`];
  });
}

/** Whether a known gate is set to a non-default value that the agent does not implement. */
export function isUnimplementedChange(name: string, value: boolean): boolean {
  const gate = known.get(name);
  return gate !== undefined && gate.default !== value && !implementedGates.has(name);
}
