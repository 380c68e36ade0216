import { nearestName } from "../../../proto/nearest-name.ts";
import type { Flag } from "./flag.ts";

/**
 * Suggests a flag for an unknown name: one with at most two typos, one named after the field it sets, or one with
 * longer words.
 */
export function nearestFlag(name: string, flags: readonly Flag[]): string | undefined {
  const names = flags.map((flag) => flag.name);
  return nearestName(name, names) ?? flagOfField(name, flags) ?? names.find((known) => hasShortenedWords(name, known));
}

/** For example `static-pod-path`, after the field `staticPodPath` of --pod-manifest-path. */
function flagOfField(name: string, flags: readonly Flag[]): string | undefined {
  const byField = new Map(
    flags.flatMap((flag) => (flag.field === undefined ? [] : [[toFlagName(flag.field), flag.name]])),
  );
  return byField.get(nearestName(name, [...byField.keys()]) ?? "");
}

function toFlagName(field: string): string {
  return field
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1-$2")
    .replaceAll(".", "-")
    .toLowerCase();
}

const MIN_WORD_LENGTH = 3;

/** For example `log-format` for `logging-format`, or the other way round. */
function hasShortenedWords(name: string, known: string): boolean {
  const parts = name.split("-");
  const knownParts = known.split("-");
  return (
    parts.length === knownParts.length &&
    parts.every((part, index) => {
      const other = knownParts[index] ?? "";
      const isLongEnough = Math.min(part.length, other.length) >= MIN_WORD_LENGTH;
      return part === other || (isLongEnough && (part.startsWith(other) || other.startsWith(part)));
    })
  );
}
