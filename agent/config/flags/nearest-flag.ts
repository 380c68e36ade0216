import { nearestName } from "../../../proto/nearest-name.ts";
import type { Flag } from "./flag.ts";

/** The flag that was probably meant: two slips away, called like the field that it sets, or with its words cut short. */
export function nearestFlag(name: string, flags: readonly Flag[]): string | undefined {
  const names = flags.map((flag) => flag.name);
  return nearestName(name, names) ?? flagOfField(name, flags) ?? names.find((known) => isCutShort(name, known));
}

/** `static-pod-path` for `staticPodPath`, which --pod-manifest-path sets. */
function flagOfField(name: string, flags: readonly Flag[]): string | undefined {
  const byField = new Map(flags.flatMap((flag) => (flag.field === undefined ? [] : [[spell(flag.field), flag.name]])));
  return byField.get(nearestName(name, [...byField.keys()]) ?? "");
}

function spell(field: string): string {
  return field
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1-$2")
    .replaceAll(".", "-")
    .toLowerCase();
}

const shortestWord = 3;

/** `log-format` for `logging-format`, or the other way round. */
function isCutShort(name: string, known: string): boolean {
  const words = name.split("-");
  const knownWords = known.split("-");
  return (
    words.length === knownWords.length &&
    words.every((word, index) => {
      const other = knownWords[index] ?? "";
      const isLongEnough = Math.min(word.length, other.length) >= shortestWord;
      return word === other || (isLongEnough && (word.startsWith(other) || other.startsWith(word)));
    })
  );
}
