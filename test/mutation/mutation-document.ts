import { judged } from "./judged.ts";
import { faultOf } from "./mutants.ts";

/** A planted fault as text, and the suite that found it; undefined if none did. */
export interface Finding {
  readonly text: string;
  readonly foundBy: string | undefined;
}

export interface MutationRun {
  readonly findings: readonly Finding[];
  /** How many faults could be planted. */
  readonly all: number;
  readonly seed: number;
  readonly commit: string;
  readonly date: Date;
}

/** The share of the faults that a suite has found, from 0 to 1. */
export const share = (findings: readonly Finding[]): number =>
  findings.filter(({ foundBy }) => foundBy !== undefined).length / findings.length;

/** The faults that no suite has found and that are not judged. */
export const unjudgedFaults = (findings: readonly Finding[]): readonly string[] =>
  findings.filter(({ text, foundBy }) => foundBy === undefined && !(faultOf(text) in judged)).map(({ text }) => text);

/** The document with the result of a run; `suites` in the order in which they look for a fault. */
export function mutationDocument(
  { findings, all, seed, commit, date }: MutationRun,
  suites: readonly string[],
): string {
  const missed = findings.filter(({ foundBy }) => foundBy === undefined).toSorted((a, b) => (a.text < b.text ? -1 : 1));
  const rows = suites.map((suite) => `| ${suite} | ${findings.filter(({ foundBy }) => foundBy === suite).length} |`);
  return [
    "# Planted faults",
    "",
    `\`bun test/mutation/run.ts ${findings.length} ${seed}\` on ${date.toISOString().slice(0, 10)}, on commit ${commit}, plants ${findings.length} of ${all} possible faults in`,
    "`agent/decide` and `agent/observed`, one at a time. The suites run in this order until one fails twice, or runs out of",
    "time twice: only this first suite counts as the one that has found the fault; later suites do not run for it.",
    "",
    "| first suite | faults found |",
    "|---|---|",
    ...rows,
    `| none | ${missed.length} |`,
    "",
    ...(missed.length > 0 ? ["Not found:", "", ...missed.map(({ text }) => `- ${text}${judgementOf(text)}`), ""] : []),
    "Found:",
    "",
    ...suites.flatMap((suite) => textsFoundBy(findings, suite).map((text) => `- by ${suite}: ${text}`)),
    "",
  ].join("\n");
}

const textsFoundBy = (findings: readonly Finding[], suite: string): readonly string[] =>
  findings
    .filter((finding) => finding.foundBy === suite)
    .map(({ text }) => text)
    .toSorted();

function judgementOf(text: string): string {
  const why = judged[faultOf(text)];
  return why === undefined ? "" : `: ${why}`;
}
