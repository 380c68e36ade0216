import { utf8 } from "./utf8.ts";

const offsetBasis = 0x6c62272e07bb014262b821756295c58dn;
const prime = 0x0000000001000000000000000000013bn;

/** FNV-1a with 128 bits over the text's UTF-8 bytes, as 32 hexadecimal digits: the form of a static pod's UID. */
export function fnv128a(text: string): string {
  let hash = offsetBasis;
  for (const byte of utf8(text)) hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * prime);
  return hash.toString(16).padStart(32, "0");
}
