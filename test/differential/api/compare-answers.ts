import type { ComparedAnswer } from "./ask-api.ts";

/** Answers of a node's API by the names of the cases. */
export type ApiAnswers = Readonly<Record<string, ComparedAnswer>>;

/** What each side has in one part of its answer. Omitted: the side lacks the part. */
export interface PartValues {
  readonly kubelet?: string | undefined;
  readonly berth?: string | undefined;
}

/**
 * A part of an answer in which Berth differs from the kubelet: `status`, `header NAME`, `end of the connection`, `body`, or
 * `field PATH` of a body whose fields are compared.
 */
export interface ApiDifference extends PartValues {
  readonly name: string;
  readonly part: string;
}

/** Differences of one kind that are the rule: the cases, and the values in the parts that differ in all of them. */
export interface KnownApiDifference {
  readonly reason: string;
  readonly names: readonly string[];
  readonly parts: Readonly<Record<string, PartValues>>;
}

/**
 * A difference, or an entry of the list without one. `listed`: the entry has the values of both sides. Anything else is a
 * fault of Berth or of the list.
 */
export interface ComparisonRow extends ApiDifference {
  readonly finding: "listed" | "not listed" | "other value" | "stale";
  /** The values of the entry. */
  readonly entry?: PartValues;
}

/** A field whose value is not known: the recording has the names of fields only. */
export const SHOWN = "(shown)";

/** All differences, by the order of the kubelet's answers. */
export function differencesOf(kubelet: ApiAnswers, berth: ApiAnswers): readonly ApiDifference[] {
  return Object.entries(kubelet).flatMap(([name, expected]) => {
    const answer = berth[name];
    const [ofKubelet, ofBerth] = [partsOf(expected), partsOf(answer)];
    const parts = [...new Set([...Object.keys(ofKubelet), ...Object.keys(ofBerth)])];
    return [
      ...parts
        .filter((part) => ofKubelet[part] !== ofBerth[part])
        .map((part) => ({ name, part, kubelet: ofKubelet[part], berth: ofBerth[part] })),
      ...differencesOfBodies(expected, answer).map((each) => ({ name, ...each })),
    ];
  });
}

/** The parts of an answer without its body. */
function partsOf(answer: ComparedAnswer | undefined): Readonly<Record<string, string | undefined>> {
  if (answer === undefined) return {};
  return {
    status: String(answer.status),
    ...Object.fromEntries(Object.entries(answer.headers).map(([key, value]) => [`header ${key}`, value])),
    "end of the connection": answer.isOpen ? "open" : "closed",
  };
}

function differencesOfBodies(
  { body: expected }: ComparedAnswer,
  answer: ComparedAnswer | undefined,
): readonly Omit<ApiDifference, "name">[] {
  const answered = answer?.body;
  if (JSON.stringify(expected) === JSON.stringify(answered)) return [];
  const wholeBody = { part: "body", kubelet: textOf(expected), berth: textOf(answered) };
  if (!isList(expected) || !isList(answered)) return [wholeBody];
  const fields = [
    ...expected
      .filter((field) => !answered.includes(field))
      .map((field) => ({ part: `field ${field}`, kubelet: SHOWN, berth: undefined })),
    ...answered
      .filter((field) => !expected.includes(field))
      .map((field) => ({ part: `field ${field}`, kubelet: undefined, berth: answer?.values?.[field] ?? SHOWN })),
  ];
  return fields.length > 0 ? fields : [wholeBody];
}

const isList = (body: ComparedAnswer["body"] | undefined) => typeof body === "object";
const textOf = (body: ComparedAnswer["body"] | undefined) => (isList(body) ? body.join("\n") : body);

/** Compares the differences with the list, part by part; then the entries of the list that nothing matches any more. */
export function compareWithList(
  differences: readonly ApiDifference[],
  known: readonly KnownApiDifference[],
): readonly ComparisonRow[] {
  const entries = new Map(entriesOf(known).map((entry) => [keyOf(entry), entry]));
  const rows = differences.map((difference): ComparisonRow => {
    const entry = entries.get(keyOf(difference));
    if (entry === undefined) return { ...difference, finding: "not listed" };
    const isListed = entry.kubelet === difference.kubelet && entry.berth === difference.berth;
    return { ...difference, finding: isListed ? "listed" : "other value", entry };
  });
  const present = new Set(differences.map(keyOf));
  const stale = [...entries.values()].filter((entry) => !present.has(keyOf(entry)));
  return [...rows, ...stale.map(({ name, part, ...entry }) => ({ name, part, finding: "stale" as const, entry }))];
}

/** The list, an entry for each part of each case. */
export function entriesOf(known: readonly KnownApiDifference[]): readonly ApiDifference[] {
  return known.flatMap(({ names, parts }) =>
    names.flatMap((name) =>
      Object.entries(parts).map(([part, { kubelet, berth }]) => ({ name, part, kubelet, berth })),
    ),
  );
}

/** The name of a part of a case. */
export const keyOf = ({ name, part }: ApiDifference) => `${name}: ${part}`;

/** The rows that are faults. */
export const findingsOf = (rows: readonly ComparisonRow[]) => rows.filter(({ finding }) => finding !== "listed");

/** Formats rows for a reader: a line for the part, one for each side, and those of the list if they are others. */
export function formatRows(rows: readonly ComparisonRow[]): string {
  return rows
    .flatMap((row) => [
      `${row.finding}: ${keyOf(row)}`,
      ...(row.finding === "stale" ? [] : linesOf(row)),
      ...(row.finding === "listed" || row.entry === undefined ? [] : linesOf(row.entry, "in the list: ")),
    ])
    .join("\n");
}

const linesOf = (values: PartValues, label = "") =>
  (["kubelet", "berth"] as const).map((side) => `  ${`${label}${side}`.padEnd(21)} ${formatValue(values[side])}`);
const formatValue = (value: string | undefined) => (value === undefined ? "(nothing)" : JSON.stringify(value));
