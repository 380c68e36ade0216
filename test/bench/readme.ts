const BEGIN = "<!-- figures: npm run bench -- --readme -->";
const END = "<!-- end of figures -->";

/** The text with what stands between the two marks replaced. Throws where it has no such place. */
export function withFigures(readme: string, figures: string): string {
  const [before, rest, ...others] = readme.split(BEGIN);
  const after = rest?.split(END)[1];
  if (before === undefined || after === undefined || others.length > 0)
    throw new Error(`README.md needs one place between the lines ${BEGIN} and ${END}`);
  return `${before}${BEGIN}\n\n${figures}\n\n${END}${after}`;
}
