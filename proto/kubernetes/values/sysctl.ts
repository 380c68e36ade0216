/**
 * Converts a sysctl name to the form that runtimes accept, separated by dots: `net/ipv4/conf/eth0.100/mtu` is
 * `net.ipv4.conf.eth0/100.mtu`. The first `.` or `/` of the name is its separator, as in sysctl.d(5).
 */
export function normalizeSysctl(name: string): string {
  const [first] = /[./]/.exec(name) ?? [];
  return first === "/" ? name.replace(/[./]/g, (each) => (each === "/" ? "." : "/")) : name;
}

/** The namespaces of a pod that have their own sysctls, as named in the kubelet's messages. */
export type SysctlNamespace = "IPC" | "Net";

const SEGMENT = "[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?";
const PATTERN = new RegExp(`^(?:${SEGMENT}[./])*(?:[a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`);
/** `kernel.shm` and `kernel.msg` are not sysctls, but prefixes of the patterns `kernel.shm*` and `kernel.msg*`. */
const IPC_SYSCTLS = /^(kernel\.(sem|shmall|shmmax|shmmni|shm_rmid_forced|shm|msgmax|msgmnb|msgmni|msg)$|fs\.mqueue\.)/;

/** A sysctl or a prefix of sysctls, and the namespace that it belongs to. */
export interface SysctlPattern {
  readonly name: string;
  readonly isPrefix: boolean;
  readonly namespace: SysctlNamespace;
}

/** Parses a sysctl, or a pattern that ends in `*`; undefined when invalid or not namespaced. Rule: NewAllowlist. */
export function parseSysctlPattern(text: string): SysctlPattern | undefined {
  if (text.length > 253 || !PATTERN.test(text)) return undefined;
  const isPrefix = text.endsWith("*");
  const name = normalizeSysctl(isPrefix ? text.slice(0, -1) : text);
  const namespace = name.startsWith("net.") ? "Net" : IPC_SYSCTLS.test(name) ? "IPC" : undefined;
  return namespace && { name, isPrefix, namespace };
}
