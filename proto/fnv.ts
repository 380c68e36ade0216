import { utf8 } from "./utf8.ts";

/** The prime is 2^88 + 315. */
const PRIME_LOW = 315;
const WORD = 2 ** 32;

/**
 * 128-bit FNV-1a over the UTF-8 bytes of a text, as 32 hexadecimal digits: the format of a static pod's UID. Computes
 * with words of 32 bits, lowest first: the dump of a pod has thousands of bytes, and each would take several BigInts.
 */
export function fnv128a(text: string): string {
  let a = 0x6295c58d;
  let b = 0x62b82175;
  let c = 0x07bb0142;
  let d = 0x6c62272e;
  for (const byte of utf8(text)) {
    a = (a ^ byte) >>> 0;
    // Each product stays below 2^53.
    const a315 = a * PRIME_LOW;
    const b315 = b * PRIME_LOW + Math.floor(a315 / WORD);
    const c315 = c * PRIME_LOW + Math.floor(b315 / WORD) + ((a << 24) >>> 0);
    const d315 = d * PRIME_LOW + Math.floor(c315 / WORD) + (((b << 24) | (a >>> 8)) >>> 0);
    a = a315 >>> 0;
    b = b315 >>> 0;
    c = c315 >>> 0;
    d = d315 >>> 0;
  }
  return [d, c, b, a].map((word) => word.toString(16).padStart(8, "0")).join("");
}
