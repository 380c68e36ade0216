import { readFileSync } from "node:fs";

/** AT_PAGESZ in the auxiliary vector: pairs of 64-bit numbers. https://man7.org/linux/man-pages/man3/getauxval.3.html */
const PAGE_SIZE_KEY = 6n;
const PAIR_BYTES = 16;

/**
 * The size of a page of memory in bytes, which the kernel passes to each process: 4096 on most machines, 16384 on a
 * Raspberry Pi 5. Throws if the file is not an auxiliary vector.
 */
export function readPageBytes(file = "/proc/self/auxv"): number {
  const vector = readFileSync(file);
  for (let at = 0; at + PAIR_BYTES <= vector.length; at += PAIR_BYTES)
    if (vector.readBigUInt64LE(at) === PAGE_SIZE_KEY) return Number(vector.readBigUInt64LE(at + 8));
  throw new Error(`${file} does not contain the size of a page`);
}
