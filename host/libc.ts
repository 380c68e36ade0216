import { dlopen, type FFIFunction, type Library } from "bun:ffi";
import { messageOf } from "./error-message.ts";

/**
 * Opens functions of the C library, for system calls that neither Node nor Bun offers. The caller closes the library.
 * Undefined if there is no glibc, or a sandbox hides it: callers with a fallback use it silently, others report
 * `libcProblem`. Never throws.
 */
export function openLibc<Functions extends Record<string, FFIFunction>>(
  functions: Functions,
): Library<Functions> | undefined {
  try {
    return dlopen("libc.so.6", functions);
  } catch {
    // `libcProblem` finds the reason when a caller needs it.
    return undefined;
  }
}

/** Why `openLibc` has failed, for the error text of features that need glibc. */
export function libcProblem(): string {
  try {
    dlopen("libc.so.6", { getpid: { args: [], returns: "i32" } }).close();
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ERR_DLOPEN_FAILED";
    // bun:ffi compiles each function, for which its compiler reserves address space at the start.
    if (!isMissing)
      return `bun:ffi cannot be used (${messageOf(error)}): a limit of the address space (RLIMIT_AS, ulimit -v) must be 4 GiB or more`;
  }
  return "glibc (libc.so.6) is missing";
}
