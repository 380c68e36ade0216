import { EVENT_ORDER, type Rows } from "./comparison-rows.ts";

/** A field in which Berth differs from a run of the kubelet; undefined means that a run lacks the field. */
export interface Finding {
  readonly pod: string;
  readonly field: string;
  /** The different values of the kubelet's runs. */
  readonly kubelet: readonly (string | undefined)[];
  readonly berth: string | undefined;
  /**
   * `noise`: the kubelet's runs differ and Berth equals one of them, the field is listed as timing-dependent, or it
   * may differ once and no further run shows it.
   * `deliberate`: it is listed as a deliberate difference. `difference`: anything else. `reason` comes from the list.
   */
  readonly kind: "noise" | "deliberate" | "difference";
  readonly reason?: string;
}

type ExpectedValue = string | RegExp | undefined;

/** A listed field in which runs may differ. */
export interface KnownDifference {
  /** The name of one pod, the names of several, or a pattern. */
  readonly pod: string | RegExp | readonly string[];
  readonly field: string | RegExp;
  /**
   * The value of each side; an array allows any of its values. Omitted: the side lacks the field. Patterns match
   * present values only.
   */
  readonly kubelet?: ExpectedValue | readonly ExpectedValue[];
  readonly berth?: ExpectedValue | readonly ExpectedValue[];
  /** Berth's value must be the message of an event of this pod that has one of these reasons. */
  readonly eventReasons?: readonly string[];
  /** For numbers: the maximum distance of Berth's value from the nearest run of the kubelet. */
  readonly within?: number;
  /**
   * The same where all runs of the kubelet have the field and agree; default: 0. Its runs differ by as much in another
   * field of the entry (`findUnsupportedDistances`).
   */
  readonly withinAgreed?: number;
  /**
   * The speed of the machine decides whether Berth's count is one below the kubelet's, the same, or one above, or whether
   * Berth shows the same instance as the kubelet or the next one. Then a run without a finding says nothing about the
   * entry, which exists as long as the recording has the kubelet's side (`findUnrecordedPods`).
   * `in some pods`: it decides in which pods Berth's status has the message of an event yet that the kubelet's never has.
   * Then at least one of the pods shows the difference.
   */
  readonly mayAgree?: true | "in some pods";
  /** Texts that patterns of the entry match, where the recording has none (`findOpenPatterns`). */
  readonly examples?: readonly string[];
  readonly reason: string;
}

export interface KnownDifferences {
  /** Deliberate differences of Berth. */
  readonly deliberate: readonly KnownDifference[];
  /** Fields that depend on timing, on all sides: they count where the kubelet's runs differ, or by `withinAgreed`. */
  readonly timingDependent: readonly KnownDifference[];
  /** What Berth may show once although the kubelet's runs agree, if no further run of the case shows it. */
  readonly inOneRun: readonly KnownDifference[];
  /** What a live kubelet may show although its recorded runs agree. */
  readonly ofLiveKubelets: readonly KnownDifference[];
}

/** The lists by which one comparison classifies its findings. */
export type ListsOfOneRun = Pick<KnownDifferences, "deliberate" | "timingDependent">;

/** What several runs of the kubelet show of one pod: the different values of each field; undefined: a run lacks it. */
export type KubeletRows = ReadonlyMap<string, readonly (string | undefined)[]>;

/** Joins runs of the kubelet. */
export function joinRuns(runs: readonly Rows[]): KubeletRows {
  return joinRows(runs.map((rows) => new Map([...rows].map(([field, value]) => [field, [value]]))));
}

/** Joins what several sets of runs show. */
export function joinRows(all: readonly KubeletRows[]): KubeletRows {
  const fields = new Set(all.flatMap((rows) => [...rows.keys()]));
  const valuesOf = (field: string) => all.flatMap((rows) => rows.get(field) ?? [undefined]);
  return new Map([...fields].map((field) => [field, [...new Set(valuesOf(field))]]));
}

/** The runs of one pod. */
export interface Runs {
  readonly pod: string;
  readonly kubelet: KubeletRows;
  readonly berth: Rows;
}

type FieldValues = Pick<Finding, "pod" | "field" | "kubelet" | "berth">;

/** The fields that at least one run of a pod has. */
export function fieldsOf({ kubelet, berth }: Runs): ReadonlySet<string> {
  return new Set([...kubelet.keys(), ...berth.keys()]);
}

/** All fields in which Berth differs from a run of the kubelet, classified. */
export function compareRuns(runs: Runs, { deliberate, timingDependent }: ListsOfOneRun): readonly Finding[] {
  const { pod, kubelet, berth } = runs;
  return [...fieldsOf(runs)].flatMap((field): readonly Finding[] => {
    const own = berth.get(field);
    const shown = kubelet.get(field) ?? [undefined];
    if (field === EVENT_ORDER) return compareOrders(pod, shown, own);
    if (shown.every((value) => value === own)) return [];
    const values = { pod, field, kubelet: shown, berth: own } as const;
    const isShown = shown.includes(own);
    const deliberateEntry = deliberate.find((each) => matchesEntry(each, values) && isMessageOfEvent(each, own, berth));
    if (deliberateEntry !== undefined && !isShown)
      return [{ ...values, kind: "deliberate", reason: deliberateEntry.reason }];
    const timingEntry = timingDependent.find((each) => matchesTimingEntry(each, values));
    if (timingEntry !== undefined) return [{ ...values, kind: "noise", reason: timingEntry.reason }];
    return [{ ...values, kind: isShown ? "noise" : "difference" }];
  });
}

/**
 * Compares the order of the events that Berth and a run of the kubelet both have. Each missing event shows up in a row
 * of its own. Berth's order must be that of at least one run.
 */
function compareOrders(pod: string, shown: Finding["kubelet"], own = ""): readonly Finding[] {
  const lines = own.split("\n");
  const pairs = shown.map((order = "") => {
    const others = order.split("\n");
    const common = (all: readonly string[], among: readonly string[]) => all.filter((line) => among.includes(line));
    return { kubelet: common(others, lines).join("\n"), berth: common(lines, others).join("\n") };
  });
  const differing = pairs.filter(({ kubelet, berth }) => kubelet !== berth);
  if (differing.length === 0) return [];
  const kind = differing.length < pairs.length ? "noise" : "difference";
  const berth = lines.filter((line) => pairs.some((pair) => pair.berth.split("\n").includes(line))).join("\n");
  return [{ pod, field: EVENT_ORDER, kubelet: pairs.map(({ kubelet }) => kubelet), berth, kind }];
}

/**
 * Whether a listed field depends on timing here. What all runs of the kubelet agree on hardly does: a count may be near
 * theirs, and an event that none of them has is never excused.
 */
function matchesTimingEntry(entry: KnownDifference, values: FieldValues): boolean {
  const [agreed, ...others] = values.kubelet;
  if (others.length > 0) return matchesEntry(entry, values);
  const { withinAgreed: within } = entry;
  return agreed !== undefined && within !== undefined && matchesEntry({ ...entry, within }, values);
}

/** Whether an entry names the field of these values and the values of both sides. */
export function matchesEntry(entry: KnownDifference, { pod, field, kubelet, berth }: FieldValues): boolean {
  const isNear = (side: string | undefined) => {
    const distance = Math.abs(numberOf(side) - numberOf(berth));
    return entry.within === undefined || distance <= entry.within;
  };
  return (
    matches(entry.pod, pod) &&
    matches(entry.field, field) &&
    kubelet.every((side) => matches(entry.kubelet, side)) &&
    kubelet.some(isNear) &&
    matches(entry.berth, berth)
  );
}

/** Whether the value is the message of an event in the pod's rows, if the entry has reasons of events. */
function isMessageOfEvent({ eventReasons }: KnownDifference, value: string | undefined, rows: Rows): boolean {
  return eventReasons?.some((reason) => rows.has(`event Warning ${reason}: ${value}`)) ?? true;
}

/** Parses an event count (`×3`) or a number of the API. A missing event counts as 0. */
function numberOf(text = "0"): number {
  return Number(text.replace(/^×/, ""));
}

/** Whether a name, field or value is an expected one. */
export function matches(expected: KnownDifference["kubelet"], actual: string | undefined): boolean {
  if (Array.isArray(expected)) return expected.some((each: ExpectedValue) => matches(each, actual));
  return expected instanceof RegExp ? actual !== undefined && expected.test(actual) : expected === actual;
}

/**
 * The pods of entries whose recording does not have the kubelet's side of the entry, as `FIELD: POD, POD`. An entry of no
 * recorded pod is among them.
 */
export function findUnrecordedPods(
  entries: readonly KnownDifference[],
  recording: ReadonlyMap<string, KubeletRows>,
): readonly string[] {
  return findPodsWithout(entries, [...recording.keys()], (entry, pod) => {
    const rows = recording.get(pod);
    return rows !== undefined && showsEntry(entry, rows);
  });
}

/** The pods of entries for which `hasEntry` is false, as `FIELD: POD, POD`. An entry of none of `pods` is among them. */
function findPodsWithout(
  entries: readonly KnownDifference[],
  pods: readonly string[],
  hasEntry: (entry: KnownDifference, pod: string) => boolean,
): readonly string[] {
  return entries.flatMap((entry) => {
    const { pod: expected, field } = entry;
    const named = expected instanceof RegExp ? pods.filter((pod) => expected.test(pod)) : [expected].flat();
    const without = named.filter((pod) => !hasEntry(entry, pod));
    if (named.length === 0) return [`${field}: no pod matches ${expected}`];
    return without.length === 0 ? [] : [`${field}: ${without.join(", ")}`];
  });
}

/**
 * The entries that allow a larger distance from what all runs of the kubelet agree on than these runs have from each
 * other in any field of the entry.
 */
export function findUnsupportedDistances(
  entries: readonly KnownDifference[],
  recording: ReadonlyMap<string, KubeletRows>,
): readonly KnownDifference[] {
  return entries.filter((entry) => {
    const own = [...recording].filter(([pod]) => matches(entry.pod, pod)).flatMap(([, rows]) => [...rows]);
    const distances = own.filter(([field]) => matches(entry.field, field)).map(([, shown]) => distanceIn(shown));
    return (entry.withinAgreed ?? 0) > Math.max(0, ...distances);
  });
}

/** The distance between the largest and the smallest of the numbers that runs show. */
function distanceIn(shown: readonly (string | undefined)[]): number {
  const numbers = shown.filter((value) => value !== undefined).map(numberOf);
  return Math.max(...numbers) - Math.min(...numbers);
}

/** Whether a run of the kubelet has the value of an entry, or lacks its field if the entry says so. */
function showsEntry(entry: KnownDifference, rows: KubeletRows): boolean {
  const values = [...rows].filter(([field]) => matches(entry.field, field)).map(([, shown]) => shown);
  const isAbsent = values.length === 0 && matches(entry.kubelet, undefined);
  return isAbsent || values.some((shown) => shown.some((value) => matches(entry.kubelet, value)));
}

/**
 * The pods of entries that no longer show the difference, as `FIELD: POD, POD`: no finding in the pod matches the entry. A
 * timing-dependent field may differ from only one of the kubelet's runs; that is enough. An entry that may agree is never
 * among them, but for one that may agree in some pods and is shown by none. `pods` are those that ran.
 */
export function findStalePods(
  deliberate: readonly KnownDifference[],
  findings: readonly Finding[],
  pods: readonly string[],
): readonly string[] {
  const byPod = Map.groupBy(findings, ({ pod }) => pod);
  const isShownIn = (entry: KnownDifference, pod: string) =>
    byPod
      .get(pod)
      ?.some(({ kubelet, ...finding }) =>
        kubelet.some((side) => side !== finding.berth && matchesEntry(entry, { ...finding, kubelet: [side] })),
      ) ?? false;
  const inAll = deliberate.filter(({ mayAgree }) => mayAgree === undefined);
  const inSome = deliberate.filter(({ mayAgree }) => mayAgree === "in some pods");
  const shownByNone = inSome.filter((entry) => !pods.some((pod) => isShownIn(entry, pod)));
  return [...findPodsWithout(inAll, pods, isShownIn), ...shownByNone.map(({ field }) => `${field}: no pod shows it`)];
}

/**
 * The entries that may agree although Berth's values are others than these: the two counts beside the kubelet's only one, or
 * the instance after the kubelet's only one; in some pods: whole messages of the pod's own events, where the kubelet has none.
 */
export function findUnboundedAgreements(entries: readonly KnownDifference[]): readonly KnownDifference[] {
  return entries.filter(({ mayAgree, kubelet, berth, eventReasons }) => {
    if (mayAgree === undefined) return false;
    if (mayAgree === "in some pods") {
      const messages = [berth].flat().filter((message) => typeof message === "string");
      return kubelet !== undefined || eventReasons === undefined || messages.length < [berth].flat().length;
    }
    if (typeof kubelet !== "string" || !/\d/.test(kubelet)) return true;
    const count = numberOf(kubelet);
    const next = kubelet.replace(/\d+/, (digits) => String(Number(digits) + 1));
    return !Bun.deepEquals(berth, kubelet.startsWith("×") ? [`×${count - 1}`, `×${count + 1}`] : next);
  });
}

/**
 * Formats findings for a reader: one line for the field and one for each side. `compared` names the side that is
 * compared with the recorded runs of the kubelet.
 */
export function formatFindings(findings: readonly Finding[], compared = "berth"): string {
  return findings
    .map(({ pod, field, kubelet: shown, berth, kind, reason }) => {
      const kubelet = [...new Set(shown)].map((value) => ["kubelet", value] as const);
      const sides = [...kubelet, [compared, berth] as const].map(
        ([label, value]) => `    ${label.padEnd(14)} ${formatValue(value)}`,
      );
      const reasonLine = reason === undefined ? [] : [`    ${"because".padEnd(14)} ${reason}`];
      return [`${kind}: ${pod}: ${field}`, ...sides, ...reasonLine].join("\n");
    })
    .join("\n");
}

const formatValue = (value: string | undefined) =>
  value === undefined ? "(nothing)" : value.replaceAll("\n", `\n${" ".repeat(19)}`);
