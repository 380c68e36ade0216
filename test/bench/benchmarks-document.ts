import type { BenchPart } from "./table.ts";

const titles: Readonly<Record<BenchPart, string>> = {
  floor: "beside the floor",
  kubelet: "beside the kubelet",
  probes: "of probes",
  starts: "of starts",
};
const startMark = (part: BenchPart) => `<!-- figures ${titles[part]}: npm run bench -- --write -->`;
const END_MARK = "<!-- end of figures -->";

/** Replaces the figures of `part` in the text of docs/benchmarks.md. Throws unless the text has exactly one place for them. */
export function withFigures(text: string, part: BenchPart, figures: string): string {
  const mark = startMark(part);
  const [before, rest, ...others] = text.split(mark);
  const at = rest?.indexOf(END_MARK) ?? -1;
  if (before === undefined || rest === undefined || at < 0 || others.length > 0)
    throw new Error(`docs/benchmarks.md needs one place between the lines ${mark} and ${END_MARK}`);
  return `${before}${mark}\n\n${figures}\n\n${rest.slice(at)}`;
}
