const NEWLINE = 10;

export interface LineSplitter {
  push(chunk: Uint8Array): void;
  /** What stands behind the last newline. */
  rest(): string;
}

/**
 * Cuts a stream of bytes into lines, wherever its chunks end. They are joined as bytes, so a letter may lie across two of them.
 * `tooLong` is called instead of keeping more than `longest` bytes; it throws.
 */
export function createLineSplitter(
  longest: number,
  onLine: (line: string) => void,
  tooLong: () => never,
): LineSplitter {
  let parts: Uint8Array[] = [];
  let length = 0;

  function keep(part: Uint8Array): void {
    length += part.length;
    if (length > longest) tooLong();
    parts.push(part);
  }
  function take(): string {
    const line = (
      parts.length === 1 && parts[0] !== undefined ? Buffer.from(parts[0]) : Buffer.concat(parts)
    ).toString();
    parts = [];
    length = 0;
    return line;
  }

  return {
    push(chunk) {
      let from = 0;
      for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
        keep(chunk.subarray(from, end));
        from = end + 1;
        onLine(take());
      }
      if (from < chunk.length) keep(chunk.subarray(from));
    },
    rest: take,
  };
}
