/**
 * A sysctl as runtimes take it, with dots between its parts: `net/ipv4/conf/eth0.100/mtu` is `net.ipv4.conf.eth0/100.mtu`. Which of the two
 * separates the parts, the first of them tells, as in sysctl.d(5).
 */
export function dottedSysctl(name: string): string {
  const [first] = /[./]/.exec(name) ?? [];
  return first === "/" ? name.replace(/[./]/g, (each) => (each === "/" ? "." : "/")) : name;
}

/** The namespaces of a pod that have sysctls of their own, as the kubelet's messages name them. */
export type SysctlNamespace = "IPC" | "Net";

const SEGMENT = "[a-z0-9](?:[-_a-z0-9]*[a-z0-9])?";
const PATTERN = new RegExp(`^(?:${SEGMENT}[./])*(?:[a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`);
/** `kernel.shm` and `kernel.msg` are no sysctls: they are what the patterns `kernel.shm*` and `kernel.msg*` begin with. */
const OF_IPC = /^(kernel\.(sem|shmall|shmmax|shmmni|shm_rmid_forced|shm|msgmax|msgmnb|msgmni|msg)$|fs\.mqueue\.)/;

/** A sysctl that pods may set, or all those that begin so; and what they belong to. */
export interface SysctlPattern {
  readonly name: string;
  readonly isPrefix: boolean;
  readonly namespace: SysctlNamespace;
}

/** Reads a sysctl, or a pattern that ends in `*`; undefined for what is neither, or is of no namespace. Rule: NewAllowlist. */
export function readSysctlPattern(text: string): SysctlPattern | undefined {
  if (text.length > 253 || !PATTERN.test(text)) return undefined;
  const isPrefix = text.endsWith("*");
  const name = dottedSysctl(isPrefix ? text.slice(0, -1) : text);
  const namespace = name.startsWith("net.") ? "Net" : OF_IPC.test(name) ? "IPC" : undefined;
  return namespace && { name, isPrefix, namespace };
}
