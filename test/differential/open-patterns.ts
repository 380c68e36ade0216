import { type KnownDifference, type KubeletRows, type ListsOfOneRun, matches } from "./compare.ts";

/** Neither the kubelet nor Berth says this. A pattern for a name, a number or a quoted text does not match it. */
const NONSENSE = ' any other "text" ';

/**
 * Finds the patterns in the lists that match a text of either side with nonsense before it, behind it or within it. Such a pattern
 * would hide unexpected differences. Also finds those that match no recorded text and no example of their entry.
 *
 * The pattern of a field counts where Berth may have a field that no run of the kubelet has, or the other way around: the field of
 * an event has its message. Otherwise the recording has the whole field. A timing-dependent entry needs a run that has it.
 */
export function findOpenPatterns(
  { deliberate, timingDependent }: ListsOfOneRun,
  recording: ReadonlyMap<string, KubeletRows>,
): readonly string[] {
  const recorded = new Set<string>();
  for (const rows of recording.values())
    for (const [field, shown] of rows) for (const text of [field, ...shown]) if (text !== undefined) recorded.add(text);
  const texts = [...recorded];
  return [
    ...deliberate.flatMap((entry) => openPatterns(entry, [...fieldPatterns(entry), ...valuePatterns(entry)], texts)),
    ...timingDependent.flatMap((entry) => openPatterns(entry, valuePatterns(entry), texts)),
  ];
}

function fieldPatterns({ field, kubelet, berth }: KnownDifference): readonly RegExp[] {
  const mayLackField = matches(kubelet, undefined) || matches(berth, undefined);
  return mayLackField && field instanceof RegExp ? [field] : [];
}

function valuePatterns({ kubelet, berth }: KnownDifference): readonly RegExp[] {
  return [kubelet, berth].flat().filter((value) => value instanceof RegExp);
}

function openPatterns(
  { field, examples = [] }: KnownDifference,
  patterns: readonly RegExp[],
  recorded: readonly string[],
): readonly string[] {
  return patterns.flatMap((pattern) => {
    const known = [...examples, ...recorded].filter((text) => pattern.test(text));
    if (known.length === 0) return [`${pattern} of ${field} needs an example`];
    const open = known.flatMap(withNonsense).find((text) => pattern.test(text));
    return open === undefined ? [] : [`${pattern} of ${field} matches ${JSON.stringify(open)}`];
  });
}

/** The text with nonsense at each place. */
function withNonsense(text: string): readonly string[] {
  return Array.from({ length: text.length + 1 }, (_, at) => text.slice(0, at) + NONSENSE + text.slice(at));
}

/** The entries that accept both states of a condition or of a container from Berth, so that nothing there is a difference. */
export function findUnboundedStates(entries: readonly KnownDifference[]): readonly KnownDifference[] {
  const states = [
    ["True", "False"],
    ["true", "false"],
  ];
  return entries.filter(({ berth }) => states.some((both) => both.every((state) => matches(berth, state))));
}
