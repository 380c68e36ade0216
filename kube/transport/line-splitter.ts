const NEWLINE = 10;

export interface LineSplitter {
  push(chunk: Uint8Array): void;
  /** The text after the last newline. */
  rest(): string;
}

/**
 * Splits a stream of byte chunks into lines. Chunks are joined as bytes, so a UTF-8 character may span two of them.
 * Calls `onTooLong`, which must throw, for a line of more than `maxBytes` bytes.
 */
export function createLineSplitter(
  maxBytes: number,
  onLine: (line: string) => void,
  onTooLong: () => never,
): LineSplitter {
  let chunks: Uint8Array[] = [];
  let length = 0;

  function append(part: Uint8Array): void {
    length += part.length;
    if (length > maxBytes) onTooLong();
    chunks.push(part);
  }
  function takeLine(): string {
    const line = (
      chunks.length === 1 && chunks[0] !== undefined ? Buffer.from(chunks[0]) : Buffer.concat(chunks)
    ).toString();
    chunks = [];
    length = 0;
    return line;
  }

  return {
    push(chunk) {
      let lineStart = 0;
      for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, lineStart)) {
        append(chunk.subarray(lineStart, end));
        lineStart = end + 1;
        onLine(takeLine());
      }
      if (lineStart < chunk.length) append(chunk.subarray(lineStart));
    },
    rest: takeLine,
  };
}
