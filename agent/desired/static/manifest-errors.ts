import type { Log } from "../../../host/log/log.ts";
import type { StaticPodSource } from "../../../proto/kubernetes/static-pod-origin.ts";
import type { RejectedManifest } from "../../decide/node/local-node-report.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import type { UidConflict } from "../../decide/sources/merge-static.ts";
import { describeSource } from "./source-location.ts";

/** The manifests of all sources that cannot be used, with the reasons. */
export interface ManifestErrors {
  /** Replaces the errors of one source, which has logged them itself. */
  setErrors(kind: StaticPodSource["kind"], refused: readonly RejectedManifest[]): void;
  /** Replaces the conflicts with uids of another source's pods. Logs each one once, for as long as it lasts. */
  setConflicts(conflicts: readonly UidConflict[]): void;
}

/** `onChange` receives all errors after each change. */
export function createManifestErrors(
  log: Log,
  onChange: (refused: readonly RejectedManifest[]) => void,
): ManifestErrors {
  const bySource = new Map<StaticPodSource["kind"], readonly RejectedManifest[]>();
  // No LogOnce: a conflict that has ended is logged again, while others last.
  let logged: ReadonlySet<string> = new Set();
  let conflictErrors: readonly RejectedManifest[] = [];

  const notify = () => onChange([...bySource.values(), conflictErrors].flat());

  return {
    setErrors(kind, refused) {
      bySource.set(kind, refused);
      notify();
    },
    setConflicts(conflicts) {
      const before = logged;
      logged = new Set(conflicts.map(logMessageOf));
      for (const conflict of conflicts) {
        const { pod, source } = conflict.manifest;
        const location = { [source.kind === "file" ? "file" : "url"]: describeSource(source) };
        const fields = { pod: fullNameOf(pod), uid: pod.metadata.uid, ...location };
        if (!before.has(logMessageOf(conflict))) log.error(fields, logMessageOf(conflict));
      }
      conflictErrors = conflicts.map((conflict) => ({
        file: describeSource(conflict.manifest.source),
        problem: problemOf(conflict),
      }));
      notify();
    },
  };
}

function logMessageOf(conflict: UidConflict): string {
  const { pod, source } = conflict.manifest;
  const what = source.kind === "file" ? "manifest" : `static pod ${fullNameOf(pod)} from the URL`;
  return `${what} refused: ${problemOf(conflict)}`;
}

function problemOf({ manifest, owner }: UidConflict): string {
  return `pod uid ${manifest.pod.metadata.uid} is already defined by ${describeSource(owner)}`;
}
