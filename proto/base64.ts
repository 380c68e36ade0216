const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const digitValues: ReadonlyMap<string, number> = new Map([...DIGITS].map((digit, value) => [digit, value]));

/** Decodes base64, padded or not; undefined for invalid text. Hand-written, since pure code has no `atob`. */
export function decodeBase64(text: string): Uint8Array | undefined {
  const digits = text.replaceAll(/[\r\n]/g, "").replace(/={0,2}$/, "");
  if (digits.length % 4 === 1) return undefined;
  const bytes = new Uint8Array(Math.floor((digits.length * 3) / 4));
  let bits = 0;
  let length = 0;
  let at = 0;
  for (const digit of digits) {
    const value = digitValues.get(digit);
    if (value === undefined) return undefined;
    bits = ((bits << 6) | value) & 0xffff;
    length += 6;
    if (length < 8) continue;
    length -= 8;
    bytes[at++] = (bits >> length) & 0xff;
  }
  return bytes;
}

/** Encodes bytes as padded base64, on one line. */
export function encodeBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 3) {
    const [one = 0, two = 0, three = 0] = bytes.subarray(at, at + 3);
    const bits = (one << 16) | (two << 8) | three;
    for (const shift of [18, 12, 6, 0]) text += DIGITS[(bits >> shift) & 0x3f];
  }
  const missing = (3 - (bytes.length % 3)) % 3;
  return text.slice(0, text.length - missing) + "=".repeat(missing);
}
