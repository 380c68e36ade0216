import type { Part } from "./table.ts";

const titles: Readonly<Record<Part, string>> = {
  floor: "beside the floor",
  kubelet: "beside the kubelet",
  probes: "of probes",
};
const begin = (part: Part) => `<!-- figures ${titles[part]}: npm run bench -- --readme -->`;
const END = "<!-- end of figures -->";

/** The text with what stands between one pair of marks replaced. Throws where it has no such place. */
export function withFigures(readme: string, part: Part, figures: string): string {
  const mark = begin(part);
  const [before, rest, ...others] = readme.split(mark);
  const at = rest?.indexOf(END) ?? -1;
  if (before === undefined || rest === undefined || at < 0 || others.length > 0)
    throw new Error(`README.md needs one place between the lines ${mark} and ${END}`);
  return `${before}${mark}\n\n${figures}\n\n${rest.slice(at)}`;
}
