import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { fullNameOf } from "../pod/desired.ts";

/** A manifest file and the pod that it defines. */
export interface ManifestFile {
  readonly file: string;
  readonly pod: Pod;
}

export interface ManifestConflict {
  readonly file: string;
  readonly problem: string;
  /** The pod, if another one has its name. */
  readonly duplicate?: Pod;
}

export interface ConflictResolution {
  /** The manifests whose pods are desired, ordered by file name; no name and no uid occurs twice. */
  readonly accepted: readonly ManifestFile[];
  readonly conflicts: readonly ManifestConflict[];
}

/**
 * Decides between manifests that define the same pod name or uid. The file that already had it keeps it as long as it
 * defines it: a copy of a manifest must not replace the running pod. A name or uid without an owner goes to the first
 * file by name.
 */
export function resolveConflicts(
  manifests: readonly ManifestFile[],
  before: readonly ManifestFile[],
): ConflictResolution {
  const byFileName = manifests.toSorted((a, b) => (a.file < b.file ? -1 : 1));
  const currentOwner = currentOwners(manifests, before);
  const ownsItsPod = ({ file, pod }: ManifestFile) => {
    const holderFiles = identifiersOf(pod).flatMap((identifier) => currentOwner.get(identifier) ?? []);
    return holderFiles.length > 0 && holderFiles.every((owningFile) => owningFile === file);
  };
  const owners = new Map<string, ManifestFile>();
  const problems = new Map<string, ManifestConflict>();
  for (const manifest of [...byFileName.filter(ownsItsPod), ...byFileName.filter((each) => !ownsItsPod(each))]) {
    const identifiers = identifiersOf(manifest.pod);
    const conflicting = identifiers.find((identifier) => owners.has(identifier));
    const owner = conflicting === undefined ? undefined : owners.get(conflicting);
    if (owner === undefined) for (const identifier of identifiers) owners.set(identifier, manifest);
    else {
      const { file, pod } = manifest;
      const problem = `pod ${conflicting} is already defined by ${owner.file}; ${fullNameOf(owner.pod)} stays as it was`;
      problems.set(file, { file, problem, ...(conflicting === fullNameOf(pod) && { duplicate: pod }) });
    }
  }
  return {
    accepted: byFileName.filter(({ file }) => !problems.has(file)),
    conflicts: byFileName.flatMap(({ file }) => problems.get(file) ?? []),
  };
}

/** The pods of one source whose name an earlier pod of that source has. */
export function podsWithDuplicateName(pods: readonly Pod[]): readonly Pod[] {
  const names = new Set<string>();
  return pods.filter((pod) => {
    const name = fullNameOf(pod);
    const isDuplicate = names.has(name);
    names.add(name);
    return isDuplicate;
  });
}

/** The file that owned each name and uid before and still defines it. */
function currentOwners(
  manifests: readonly ManifestFile[],
  before: readonly ManifestFile[],
): ReadonlyMap<string, string> {
  const identifiers = new Map(manifests.map(({ file, pod }) => [file, identifiersOf(pod)]));
  return new Map(
    before.flatMap(({ file, pod }) =>
      identifiersOf(pod).flatMap((identifier) =>
        identifiers.get(file)?.includes(identifier) ? [[identifier, file] as const] : [],
      ),
    ),
  );
}

function identifiersOf(pod: Pod): readonly string[] {
  return [fullNameOf(pod), `uid ${pod.metadata.uid}`];
}
