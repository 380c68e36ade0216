import { utf8 } from "./utf8.ts";

const offsetBasis = 0x6c62272e07bb014262b821756295c58dn;
const prime = 0x0000000001000000000000000000013bn;

/** 128-bit FNV-1a over the UTF-8 bytes of a text, as 32 hexadecimal digits: the format of a static pod's UID. */
export function fnv128a(text: string): string {
  let hash = offsetBasis;
  for (const byte of utf8(text)) hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * prime);
  return hash.toString(16).padStart(32, "0");
}
