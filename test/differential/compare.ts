import { ORDER, type Rows } from "./comparison-rows.ts";

/** A field in which not all three runs are the same; undefined is a side that does not have it. */
export interface Finding {
  readonly pod: string;
  readonly field: string;
  /** The two runs of the kubelet. */
  readonly kubelet: readonly [string | undefined, string | undefined];
  readonly berth: string | undefined;
  /**
   * `noise`: the kubelet differs from itself, and Berth shows what one of its runs shows, or it is in the list of what depends on
   * moments. `deliberate`: it is in the list of what we do otherwise. `reason` says why, of what is listed. `difference`: anything else.
   */
  readonly kind: "noise" | "deliberate" | "difference";
  readonly reason?: string;
}

type Shown = string | RegExp | undefined;

/** A field in which runs need not be the same. */
export interface Entry {
  /** The name of the pod, those of several, or a pattern for them. */
  readonly pod: string | RegExp | readonly string[];
  readonly field: string | RegExp;
  /** What each side shows, of several one; left out where the side does not have the field, which no pattern is about. */
  readonly kubelet?: Shown | readonly Shown[];
  readonly berth?: Shown | readonly Shown[];
  /** How far what Berth shows may be from each run of the kubelet, where these are numbers. */
  readonly within?: number;
  readonly reason: string;
}

export interface Lists {
  /** What Berth does otherwise on purpose. */
  readonly deliberate: readonly Entry[];
  /** What depends on the moment at which somebody looked, on all sides. */
  readonly momentary: readonly Entry[];
}

/** The three runs of one pod. */
export interface Runs {
  readonly pod: string;
  readonly kubelet: readonly [Rows, Rows];
  readonly berth: Rows;
}

type Seen = Pick<Finding, "pod" | "field" | "kubelet" | "berth">;

/** The fields that any run of a pod has. */
export function fieldsOf({ kubelet: [first, second], berth }: Runs): ReadonlySet<string> {
  return new Set([...first.keys(), ...second.keys(), ...berth.keys()]);
}

/** All fields in which the runs of a pod are not the same, with what each of them is. */
export function compare(runs: Runs, { deliberate, momentary }: Lists): readonly Finding[] {
  const { pod, kubelet, berth } = runs;
  const [first, second] = kubelet;
  return [...fieldsOf(runs)].flatMap((field): readonly Finding[] => {
    const [a, b, own] =
      field === ORDER ? commonOrders({ kubelet, berth }) : [first.get(field), second.get(field), berth.get(field)];
    if (a === b && b === own) return [];
    const seen = { pod, field, kubelet: [a, b], berth: own } as const;
    const purpose = deliberate.find((each) => isAbout(each, seen));
    if (purpose !== undefined && own !== a && own !== b)
      return [{ ...seen, kind: "deliberate", reason: purpose.reason }];
    const moment = momentary.find((each) => isAbout(each, seen));
    if (moment !== undefined) return [{ ...seen, kind: "noise", reason: moment.reason }];
    return [{ ...seen, kind: own === a || own === b ? "noise" : "difference" }];
  });
}

/** Of events that only one side tells, their own rows tell already: what is compared is the order of the others. */
function commonOrders({ kubelet: [first, second], berth }: Pick<Runs, "kubelet" | "berth">): readonly string[] {
  const told = [first, second, berth].map((rows) => (rows.get(ORDER) ?? "").split("\n"));
  const isCommon = (line: string) => told.every((others) => others.includes(line));
  return told.map((lines) => lines.filter(isCommon).join("\n"));
}

function isAbout(entry: Entry, { pod, field, kubelet, berth }: Seen): boolean {
  const isNear = (side: string | undefined) => {
    const distance = Math.abs(numberOf(side) - numberOf(berth));
    return entry.within === undefined || distance <= entry.within;
  };
  return (
    matches(entry.pod, pod) &&
    matches(entry.field, field) &&
    kubelet.every((side) => matches(entry.kubelet, side) && isNear(side)) &&
    matches(entry.berth, berth)
  );
}

/** A count of events, or a number as the API shows it. What is not there has been told no time. */
function numberOf(text = "0"): number {
  return Number(text.replace(/^×/, ""));
}

function matches(wanted: Entry["kubelet"], seen: string | undefined): boolean {
  if (Array.isArray(wanted)) return wanted.some((each: Shown) => matches(each, seen));
  return wanted instanceof RegExp ? seen !== undefined && wanted.test(seen) : wanted === seen;
}

/** Whether an entry takes whatever either side shows, so that it would hide what nobody has thought of. */
export function isBoundless({ kubelet, berth, within }: Entry): boolean {
  const takesAnything = (side: Entry["kubelet"]) =>
    ["-", "×99", "any other\ntext"].every((text) => matches(side, text));
  return within === undefined && takesAnything(kubelet) && takesAnything(berth);
}

/**
 * The entries of the list that no finding is about: what they excused has gone. What depends on moments may show as noise alone in one
 * run; then one of the kubelet's two sides is enough.
 */
export function stale(deliberate: readonly Entry[], findings: readonly Finding[]): readonly Entry[] {
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
