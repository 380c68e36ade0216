import { dlopen, type FFIFunction, type Library } from "bun:ffi";

/**
 * Functions of the C library, for what neither Node nor Bun has; whoever opens it closes it. Undefined where there is no glibc, or a sandbox
 * hides it: whoever can do without does so, and says nothing; whoever cannot says that it is missing. Never throws.
 */
export function openLibc<Functions extends Record<string, FFIFunction>>(
  functions: Functions,
): Library<Functions> | undefined {
  try {
    return dlopen("libc.so.6", functions);
  } catch {
    return undefined;
  }
}

/** What is said where glibc is needed and missing. */
export const NO_LIBC = "there is no glibc (libc.so.6) that could be asked";
