import { FFIType } from "bun:ffi";
import { openLibc } from "./libc.ts";

/** The size of `struct timex` is 208 bytes on 64-bit Linux; the rest is a reserve. */
const TIMEX_BYTES = 512;

/** What adjtimex(2) returns while no time service has set the clock (`STA_UNSYNC`). */
const TIME_ERROR = 5;

/**
 * Whether a time service (systemd-timesyncd, chrony, ntpd) keeps the clock synchronized, as the kernel knows it.
 * Undefined if the kernel does not say. Changes nothing, and needs no root.
 */
export function isClockSynchronized(): boolean | undefined {
  const libc = openLibc({ adjtimex: { args: [FFIType.ptr], returns: FFIType.i32 } });
  if (libc === undefined) return undefined;
  try {
    // All zero: `modes` 0 only reads.
    const state = libc.symbols.adjtimex(new Uint8Array(TIMEX_BYTES));
    return state < 0 ? undefined : state !== TIME_ERROR;
  } finally {
    libc.close();
  }
}
