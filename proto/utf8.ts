/**
 * Encodes UTF-8. Hand-written, since pure code has no TextEncoder. A lone surrogate becomes U+FFFD as in Go, except
 * those with which {@link fromUtf8} represents invalid bytes: they become that byte again.
 */
export function utf8(text: string): Uint8Array {
  const bytes: number[] = [];
  for (const char of text) {
    const point = wellFormed(char.codePointAt(0) ?? 0);
    if (point < 0x80) bytes.push(point);
    else if (point < 0x800) bytes.push(0xc0 | (point >> 6), continuationByte(point));
    else if (isKeptByte(point)) bytes.push(point & 0xff);
    else if (point < 0x10000) bytes.push(0xe0 | (point >> 12), continuationByte(point >> 6), continuationByte(point));
    else
      bytes.push(
        0xf0 | (point >> 18),
        continuationByte(point >> 12),
        continuationByte(point >> 6),
        continuationByte(point),
      );
  }
  return Uint8Array.from(bytes);
}

/** The length in bytes of {@link utf8} of a text, without encoding it. */
export function utf8Length(text: string): number {
  let bytes = 0;
  for (const char of text) {
    const point = wellFormed(char.codePointAt(0) ?? 0);
    bytes += point < 0x80 || isKeptByte(point) ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
  }
  return bytes;
}

/**
 * Decodes UTF-8. Each invalid byte becomes a lone surrogate, U+DC80 to U+DCFF, so that {@link utf8} restores it: the
 * values of Secrets may be arbitrary bytes.
 */
export function fromUtf8(bytes: Uint8Array): string {
  const chars: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const { point, length } = characterAt(bytes, at);
    chars.push(String.fromCodePoint(point));
    at += length;
  }
  return chars.join("");
}

function characterAt(bytes: Uint8Array, at: number): { readonly point: number; readonly length: number } {
  const first = bytes[at] ?? 0;
  const length =
    first < 0x80 ? 1 : first >> 5 === 0b110 ? 2 : first >> 4 === 0b1110 ? 3 : first >> 3 === 0b11110 ? 4 : 0;
  if (length === 1) return { point: first, length };
  const kept = { point: KEPT_BYTE_BASE | first, length: 1 };
  const rest = bytes.subarray(at + 1, at + length);
  if (length === 0 || rest.length < length - 1 || rest.some((byte) => byte >> 6 !== 0b10)) return kept;
  const point = rest.reduce((bits, byte) => (bits << 6) | (byte & 0x3f), first & (0x7f >> length));
  const isMinimalLength = point >= (length === 2 ? 0x80 : length === 3 ? 0x800 : 0x10000);
  return isMinimalLength && !isSurrogate(point) && point <= 0x10ffff ? { point, length } : kept;
}

/** Truncates a text to a number of UTF-8 bytes without splitting a character. */
export function truncateUtf8(text: string, maxBytes: number): string {
  if (text.length * MAX_BYTES_PER_UNIT <= maxBytes) return text;
  const bytes = utf8(text);
  if (bytes.length <= maxBytes) return text;
  let end = maxBytes;
  while (end > 0 && (bytes[end] ?? 0) >> 6 === 0b10) end--;
  return fromUtf8(bytes.subarray(0, end));
}

/** The most UTF-8 bytes of one UTF-16 code unit. */
const MAX_BYTES_PER_UNIT = 3;

const KEPT_BYTE_BASE = 0xdc00;
const isSurrogate = (point: number) => point >= 0xd800 && point <= 0xdfff;
const isKeptByte = (point: number) => point >= KEPT_BYTE_BASE + 0x80 && point <= KEPT_BYTE_BASE + 0xff;
const wellFormed = (point: number) => (isSurrogate(point) && !isKeptByte(point) ? 0xfffd : point);

function continuationByte(bits: number): number {
  return 0x80 | (bits & 0x3f);
}
