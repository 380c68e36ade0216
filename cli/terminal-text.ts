/** Cuts a line at its end, which matters least in a row of a table. */
export function cutEnd(line: string, columns: number): string {
  const characters = [...line];
  return characters.length <= columns ? line : `${characters.slice(0, columns - 1).join("")}…`;
}

/** Cuts a text in the middle: the end of a message names the cause, that of a pod its node. */
export function cutMiddle(text: string, columns: number): string {
  const characters = [...text];
  if (characters.length <= columns) return text;
  const tail = Math.floor((columns - 1) / 2);
  return [...characters.slice(0, columns - 1 - tail), "…", ...characters.slice(characters.length - tail)].join("");
}

/** Breaks the text between words; later lines are indented as far as the first one's `before` is long. */
export function hangingLines(before: string, text: string, columns: number): readonly string[] {
  const width = Math.max(MIN_TEXT_WIDTH, columns - before.length);
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines.map((line, index) => `${index === 0 ? before : " ".repeat(before.length)}${line}`.trimEnd());
}

const MIN_TEXT_WIDTH = 30;

/** The width of a terminal, 80 if it does not know it; infinite for a file or a pipe, which gets whole lines. */
export function columnsOf({ isTTY, columns }: { readonly isTTY?: boolean; readonly columns?: number }): number {
  return isTTY === true ? columns || 80 : Number.POSITIVE_INFINITY;
}

/** Says which columns of a table were left out, and where they are. */
export function hiddenNote(hidden: readonly string[], columns: number, command: string): string {
  return `not shown in ${columns} columns: ${hidden.join(", ")}; see ${command} | cat`;
}
