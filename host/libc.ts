import { dlopen, type FFIFunction, type Library } from "bun:ffi";

/**
 * Opens functions of the C library, for system calls that neither Node nor Bun offers. The caller closes the library.
 * Undefined if there is no glibc, or a sandbox hides it: callers with a fallback use it silently, others report
 * `GLIBC_MISSING`. Never throws.
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

/** The error text for features that need glibc. */
export const GLIBC_MISSING = "glibc (libc.so.6) is missing";
