import { notesItsEnd, type Verdict } from "./expected-outcomes.ts";
import type { Kind } from "./random-workload.ts";

interface Quotas {
  /** Of all pods, at most this share may be excused. */
  readonly mostExcused: number;
  /** Of the pods that end, at least this share must have noted their own end. */
  readonly leastNoted: number;
}
/**
 * Chance weighs more among few pods. An excuse names a kill that met a call for this very pod (`explain`), and the kills
 * meet none to three of fifteen pods, rarely five. Ten of the eighteen end.
 */
const OF_FEW: Quotas = { mostExcused: 1 / 3, leastNoted: 0.5 };
const MANY = 100;
const OF_MANY: Quotas = { mostExcused: 0.3, leastNoted: 0.5 };
/**
 * Of each so many pods of a kind, at least one must have reached its outcome. Kills may meet both of two pods;
 * `kindsWithoutOutcome` names those kinds.
 */
const REACHED_ONCE_IN = 3;

/** Returns one sentence for each quota that the excuses exceed: an agent that starts nothing would excuse all pods. */
export function exceededQuotas(verdicts: readonly Verdict[]): readonly string[] {
  const excused = verdicts.filter(({ outcome }) => outcome === "excused");
  const ending = verdicts.filter(({ kind }) => notesItsEnd(kind));
  const noted = ending.filter(({ outcome }) => outcome === "reached");
  const { mostExcused, leastNoted } = verdicts.length < MANY ? OF_FEW : OF_MANY;
  const exceeded: string[] = [];
  if (excused.length > verdicts.length * mostExcused)
    exceeded.push(`${excused.length} of ${verdicts.length} pods are excused: ${describe(excused)}`);
  if (noted.length < ending.length * leastNoted)
    exceeded.push(`only ${noted.length} of ${ending.length} pods that end have noted their end`);
  for (const [kind, own] of Map.groupBy(verdicts, (verdict) => verdict.kind)) {
    const reached = own.filter(({ outcome }) => outcome === "reached");
    const required = Math.floor(own.length / REACHED_ONCE_IN);
    if (reached.length < required)
      exceeded.push(`only ${reached.length} of ${own.length} pods of the kind ${kind} have reached their outcome`);
  }
  return exceeded;
}

/** The kinds of which no pod has reached its outcome: the kills met all of them, or the agent cannot run them. */
export function kindsWithoutOutcome(verdicts: readonly Verdict[]): readonly Kind[] {
  return [...Map.groupBy(verdicts, ({ kind }) => kind)]
    .filter(([, own]) => own.every(({ outcome }) => outcome !== "reached"))
    .map(([kind]) => kind);
}

const describe = (excused: readonly Verdict[]) =>
  excused.map((verdict) => (verdict.outcome === "excused" ? verdict.sentence : verdict.name)).join("\n");

const COLUMNS = ["reached", "never began", "interrupted", "exit code lost", "ran twice", "deviates"] as const;

/** A table of the outcomes by kind of pod. */
export function outcomeTable(verdicts: readonly Verdict[]): string {
  const columnOf = (verdict: Verdict) => (verdict.outcome === "excused" ? verdict.rule : verdict.outcome);
  const row = (title: string, own: readonly Verdict[]) =>
    [
      title.padEnd(12),
      ...COLUMNS.map((column) => {
        const count = own.filter((verdict) => columnOf(verdict) === column).length;
        return String(count || "").padStart(column.length);
      }),
    ].join("  ");
  const byKind = [...Map.groupBy(verdicts, ({ kind }) => kind)].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return [
    ["kind".padEnd(12), ...COLUMNS].join("  "),
    ...byKind.map(([kind, own]) => row(kind, own)),
    row("all", verdicts),
  ].join("\n");
}
