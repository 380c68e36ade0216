import { describeConditions } from "./conditions.ts";
import { drawingOf, figuresOf, type Result } from "./results.ts";
import { type BenchPart, markdownTable } from "./table.ts";

const titles: Readonly<Record<BenchPart, string>> = {
  floor: "beside the floor",
  kubelet: "beside the kubelet",
  "own-share": "of own shares",
  probes: "of probes",
  starts: "of starts",
  volumes: "of volumes",
  api: "of the node's API",
  network: "of the network",
};
const startMark = (part: BenchPart) => `<!-- figures ${titles[part]}: npm run bench -- --write -->`;
const README_MARK = "<!-- six figures: npm run bench -- --write -->";
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
export const figuresIn = (text: string, part: BenchPart): string => contentOf(text, startMark(part));

/** The figures in the text of the README. */
export const readmeFiguresIn = (text: string): string => contentOf(text, README_MARK);

/** Replaces the figures of `part` in the text of docs/benchmarks.md. Throws unless the text has exactly one place for them. */
export const withFigures = (text: string, part: BenchPart, figures: string): string =>
  withContent(text, startMark(part), figures);

/** Replaces the figures in the text of the README, as {@link withFigures}. */
export const withReadmeFigures = (text: string, figures: string): string => withContent(text, README_MARK, figures);

function contentOf(text: string, mark: string): string {
  const { rest, at } = placeOf(text, mark);
  return rest.slice(0, at).trim();
}

function withContent(text: string, mark: string, content: string): string {
  const { before, rest, at } = placeOf(text, mark);
  return `${before}${mark}\n\n${content}\n\n${rest.slice(at)}`;
}

function placeOf(text: string, mark: string) {
  const [before, rest, ...others] = text.split(mark);
  const at = rest?.indexOf(END_MARK) ?? -1;
  if (before === undefined || rest === undefined || at < 0 || others.length > 0)
    throw new Error(`the document needs one place between the lines ${mark} and ${END_MARK}`);
  return { before, rest, at };
}
