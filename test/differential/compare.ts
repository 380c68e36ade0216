import { ORDER, type Rows } from "./rows.ts";

/** A field in which not all three runs are the same; undefined is a side that does not have it. */
export interface Finding {
  readonly pod: string;
  readonly field: string;
  /** The two runs of the kubelet. */
  readonly kubelet: readonly [string | undefined, string | undefined];
  readonly berth: string | undefined;
  /**
   * `noise`: the kubelet differs from itself. `deliberate`: it is in the list of what we do otherwise, `reason` says why.
   * `difference`: anything else.
   */
  readonly kind: "noise" | "deliberate" | "difference";
  readonly reason?: string;
}

/** Something that Berth does otherwise on purpose. */
export interface Deliberate {
  /** The name of the pod, or a pattern for several. */
  readonly pod: string | RegExp;
  readonly field: string | RegExp;
  /** What each side shows; left out where the side does not have the field, and a pattern where it is not always the same. */
  readonly kubelet?: string | RegExp;
  readonly berth?: string | RegExp;
  readonly reason: string;
}

/** The three runs of one pod. */
export interface Runs {
  readonly pod: string;
  readonly kubelet: readonly [Rows, Rows];
  readonly berth: Rows;
}

/** All fields in which the runs of a pod are not the same, with what each of them is. */
export function compare({ pod, kubelet, berth }: Runs, deliberate: readonly Deliberate[]): readonly Finding[] {
  const [first, second] = kubelet;
  const fields = new Set([...first.keys(), ...second.keys(), ...berth.keys()]);
  return [...fields].flatMap((field): readonly Finding[] => {
    const [a, b, own] =
      field === ORDER ? commonOrders({ kubelet, berth }) : [first.get(field), second.get(field), berth.get(field)];
    if (a === b && b === own) return [];
    const seen = { pod, field, kubelet: [a, b], berth: own } as const;
    if (a !== b) return [{ ...seen, kind: "noise" }];
    const listed = deliberate.find((each) => isAbout(each, seen));
    return [
      listed === undefined ? { ...seen, kind: "difference" } : { ...seen, kind: "deliberate", reason: listed.reason },
    ];
  });
}

/** Of events that only one side tells, their own rows tell already: what is compared is the order of the others. */
function commonOrders({ kubelet: [first, second], berth }: Pick<Runs, "kubelet" | "berth">): readonly string[] {
  const told = [first, second, berth].map((rows) => (rows.get(ORDER) ?? "").split("\n"));
  const isCommon = (line: string) => told.every((others) => others.includes(line));
  return told.map((lines) => lines.filter(isCommon).join("\n"));
}

function isAbout(
  { pod, field, kubelet, berth }: Deliberate,
  seen: Pick<Finding, "pod" | "field" | "kubelet" | "berth">,
) {
  return (
    matches(pod, seen.pod) &&
    matches(field, seen.field) &&
    matches(kubelet, seen.kubelet[0]) &&
    matches(berth, seen.berth)
  );
}

function matches(wanted: string | RegExp | undefined, seen: string | undefined): boolean {
  return wanted instanceof RegExp ? wanted.test(seen ?? "") : wanted === seen;
}

/**
 * The entries of the list that no finding is about: what they excused has gone. What depends on moments may show as noise alone in one
 * run; then one of the kubelet's two sides is enough.
 */
export function stale(deliberate: readonly Deliberate[], findings: readonly Finding[]): readonly Deliberate[] {
  const sides = findings.flatMap((finding) =>
    finding.kubelet.map((side) => ({ ...finding, kubelet: [side, side] as const })),
  );
  return deliberate.filter((entry) => !sides.some((side) => isAbout(entry, side)));
}

/** Findings as a reader wants them: a line for the field, and one for each side. */
export function tell(findings: readonly Finding[]): string {
  return findings
    .map(({ pod, field, kubelet: [a, b], berth, kind, reason }) => {
      const kubelet =
        a === b
          ? [["kubelet", a] as const]
          : ([
              ["kubelet once", a],
              ["kubelet again", b],
            ] as const);
      const sides = [...kubelet, ["berth", berth] as const].map(
        ([who, value]) => `    ${who.padEnd(14)} ${shown(value)}`,
      );
      const why = reason === undefined ? [] : [`    ${"because".padEnd(14)} ${reason}`];
      return [`${kind}: ${pod}: ${field}`, ...sides, ...why].join("\n");
    })
    .join("\n");
}

const shown = (value: string | undefined) =>
  value === undefined ? "(nothing)" : value.replaceAll("\n", `\n${" ".repeat(19)}`);
