import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { fullNameOf } from "./pod/desired.ts";

/** A manifest and the pod that it asks for. */
export interface Claimant {
  readonly file: string;
  readonly pod: Pod;
}

export interface RefusedClaim {
  readonly file: string;
  readonly problem: string;
  /** The pod, where another one has its name. */
  readonly namesake?: Pod;
}

export interface Settlement {
  /** Whose pods are wanted, in the order of their names; no name and no uid is there twice. */
  readonly granted: readonly Claimant[];
  readonly refused: readonly RefusedClaim[];
}

/**
 * Decides between manifests that claim one pod, by its name or its uid. The one that had it before keeps it for as long as it
 * claims it: a copy that appears beside a manifest must not replace the pod that runs. What none had goes to the first in the order
 * of names.
 */
export function settleClaims(claimants: readonly Claimant[], before: readonly Claimant[]): Settlement {
  const inOrder = claimants.toSorted((a, b) => (a.file < b.file ? -1 : 1));
  const holders = holdersOf(claimants, before);
  const isSettled = ({ file, pod }: Claimant) => {
    const held = claimsOf(pod).flatMap((claim) => holders.get(claim) ?? []);
    return held.length > 0 && held.every((holder) => holder === file);
  };
  const owners = new Map<string, Claimant>();
  const problems = new Map<string, RefusedClaim>();
  for (const claimant of [...inOrder.filter(isSettled), ...inOrder.filter((each) => !isSettled(each))]) {
    const claims = claimsOf(claimant.pod);
    const taken = claims.find((claim) => owners.has(claim));
    const owner = taken === undefined ? undefined : owners.get(taken);
    if (owner === undefined) for (const claim of claims) owners.set(claim, claimant);
    else {
      const { file, pod } = claimant;
      const problem = `pod ${taken} is already defined by ${owner.file}; ${fullNameOf(owner.pod)} stays as it was`;
      problems.set(file, { file, problem, ...(taken === fullNameOf(pod) && { namesake: pod }) });
    }
  }
  return {
    granted: inOrder.filter(({ file }) => !problems.has(file)),
    refused: inOrder.flatMap(({ file }) => problems.get(file) ?? []),
  };
}

/** Of pods that one source asks for those whose name an earlier one has. */
export function namesakesAmong(pods: readonly Pod[]): readonly Pod[] {
  const names = new Set<string>();
  return pods.filter((pod) => {
    const name = fullNameOf(pod);
    const isTaken = names.has(name);
    names.add(name);
    return isTaken;
  });
}

/** The file that had each claim before and has it still. */
function holdersOf(claimants: readonly Claimant[], before: readonly Claimant[]): ReadonlyMap<string, string> {
  const claims = new Map(claimants.map(({ file, pod }) => [file, claimsOf(pod)]));
  return new Map(
    before.flatMap(({ file, pod }) =>
      claimsOf(pod).flatMap((claim) => (claims.get(file)?.includes(claim) ? [[claim, file] as const] : [])),
    ),
  );
}

function claimsOf(pod: Pod): readonly string[] {
  return [fullNameOf(pod), `uid ${pod.metadata.uid}`];
}
