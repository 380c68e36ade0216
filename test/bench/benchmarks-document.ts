import { describeConditions } from "./conditions.ts";
import { drawingOf, figuresOf, type Result } from "./results.ts";
import { type BenchPart, markdownTable } from "./table.ts";

const titles: Readonly<Record<BenchPart, string>> = {
  floor: "beside the floor",
  kubelet: "beside the kubelet",
  "own-share": "of own shares",
  probes: "of probes",
  starts: "of starts",
};
const startMark = (part: BenchPart) => `<!-- figures ${titles[part]}: npm run bench -- --write -->`;
const END_MARK = "<!-- end of figures -->";

/** A table with the conditions of its run, for docs/benchmarks.md. */
export function tableOf(result: Result): string {
  const { part, conditions } = result;
  const drawing = drawingOf(result);
  const samples = `All samples: [benchmarks/${part}.json](benchmarks/${part}.json).`;
  return [
    markdownTable(figuresOf(result), part),
    ...(drawing === undefined ? [] : [drawing]),
    [...describeConditions(conditions), samples].join(" "),
  ].join("\n\n");
}

/** The table of `part` in the text of docs/benchmarks.md. */
export function figuresIn(text: string, part: BenchPart): string {
  const { rest, at } = placeOf(text, part);
  return rest.slice(0, at).trim();
}

/** Replaces the figures of `part` in the text of docs/benchmarks.md. Throws unless the text has exactly one place for them. */
export function withFigures(text: string, part: BenchPart, figures: string): string {
  const { before, rest, at } = placeOf(text, part);
  return `${before}${startMark(part)}\n\n${figures}\n\n${rest.slice(at)}`;
}

function placeOf(text: string, part: BenchPart) {
  const mark = startMark(part);
  const [before, rest, ...others] = text.split(mark);
  const at = rest?.indexOf(END_MARK) ?? -1;
  if (before === undefined || rest === undefined || at < 0 || others.length > 0)
    throw new Error(`docs/benchmarks.md needs one place between the lines ${mark} and ${END_MARK}`);
  return { before, rest, at };
}
