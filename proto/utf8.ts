/** UTF-8 by hand: pure code has no TextEncoder. Half of a surrogate pair is no character, and becomes U+FFFD as in Go. */
export function utf8(text: string): Uint8Array {
  const bytes: number[] = [];
  for (const char of text.toWellFormed()) {
    const point = char.codePointAt(0) ?? 0;
    if (point < 0x80) bytes.push(point);
    else if (point < 0x800) bytes.push(0xc0 | (point >> 6), tail(point));
    else if (point < 0x10000) bytes.push(0xe0 | (point >> 12), tail(point >> 6), tail(point));
    else bytes.push(0xf0 | (point >> 18), tail(point >> 12), tail(point >> 6), tail(point));
  }
  return Uint8Array.from(bytes);
}

function tail(bits: number): number {
  return 0x80 | (bits & 0x3f);
}
