/** Codes of ours; others are the kernel's, such as `EINVAL`, `EBUSY`, `ENOSPC`. */
export type OwnCgroupCode =
  /** No cgroup can have this name. */
  | "ENAME"
  /** The kernel lacks the controller of the file, or the file itself. */
  | "ECONTROLLER"
  /** A memory limit is below what the cgroup uses. */
  | "EINUSE"
  /** A file of the kernel has a content that cannot be read. */
  | "EPARSE"
  /** systemd cannot be reached, or the connection has ended. */
  | "EDBUS"
  /** systemd, or the end of the processes of a cgroup, takes longer than the limit. */
  | "ETIMEDOUT"
  /** systemd refuses the call, or its job has failed. */
  | "ESYSTEMD";

/**
 * A failed operation on a cgroup. `file` is the file or folder, or the unit of systemd; `value` is what was written to
 * it, undefined where nothing was. Callers decide by `code`.
 */
export class CgroupError extends Error {
  override readonly name = "CgroupError";
  readonly code: string;
  readonly file: string;
  readonly value: string | undefined;
  constructor(code: string, file: string, value: string | undefined, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.file = file;
    this.value = value;
  }
}

/** An error of ours, whose code the compiler checks. */
export function ownCgroupError(
  code: OwnCgroupCode,
  file: string,
  value: string | undefined,
  message: string,
  options?: ErrorOptions,
): CgroupError {
  return new CgroupError(code, file, value, message, options);
}

/** What happened to a file, and the system call's error. Any other error is returned as it is. */
export function toCgroupError(verb: string, file: string, value: string | undefined, error: unknown): unknown {
  if (!(error instanceof Error && "code" in error && typeof error.code === "string")) return error;
  const code = KERNEL_NAMES[error.code] ?? error.code;
  const reason = REASONS[code] ?? "";
  const what = value === undefined ? file : `${JSON.stringify(value)} to ${file}`;
  return new CgroupError(code, file, value, `cannot ${verb} ${what}: ${code}${reason}`, { cause: error });
}

/** Linux has one number for both names, and the runtime has the other one. */
const KERNEL_NAMES: Readonly<Record<string, string>> = { ENOTSUP: "EOPNOTSUPP" };

/** What the kernel says with a code, in the words of its documentation of cgroups. */
const REASONS: Readonly<Record<string, string>> = {
  EINVAL: ", the kernel rejects the value",
  ERANGE: ", the value is out of the kernel's range",
  EBUSY: ", a process or another cgroup uses it",
  ENOSPC: ", a limit of the kernel or of a cgroup above is reached",
  EAGAIN: ", a limit of the number or depth of cgroups is reached",
  EOPNOTSUPP: ", the kernel does not support it here",
  ENOENT: ", it does not exist",
  EROFS: ", the cgroup file system is mounted read-only",
  EACCES: ", permission denied",
  EPERM: ", not permitted",
};
