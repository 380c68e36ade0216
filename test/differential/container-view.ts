import { volumeFactKinds, volumeScripts } from "./volume-view.ts";

/*
 * A container's view of itself, which it writes to its termination log: one fact per line, starting with its kind. The
 * kubelet keeps only the last 4096 bytes, so a view has only the parts that its pod is about, and a first line whose
 * absence shows that it was truncated.
 */

const FIRST_LINE = "view";

const viewScripts = {
  env: "env | sort | sed 's/^/env /'",
  hostname: 'echo "hostname $(hostname)"',
  hosts: "sed 's/^/hosts /' /etc/hosts",
  resolv: "sed 's/^/resolv /' /etc/resolv.conf",
  id: 'echo "id $(id)"',
  cwd: 'echo "cwd $(pwd)"',
  args: 'echo "args $#: $*"',
  // Only the mount options that restrict the use of a file system.
  mounts:
    'awk \'{n = split($4, o, ","); s = ""; for (i = 1; i <= n; i++) if (o[i] ~ /^(ro|rw|nosuid|nodev|noexec)$/) s = s " " o[i]; print "mount", $2, $3 s}\' /proc/mounts | grep -v \' /sys/fs/cgroup/\'',
  status: "grep -E '^(Cap|Seccomp:|NoNewPrivs|Groups)' /proc/self/status | tr -s '\\t ' ' ' | sed 's/^/status /'",
  oom: 'echo "oom $(cat /proc/self/oom_score_adj)"',
  first: 'echo "first $(cat /proc/1/comm)"',
  namespaces: 'for ns in net pid ipc uts; do echo "namespace $ns $(readlink /proc/self/ns/$ns)"; done',
  // The names with a folder are those of cgroup v1, the others those of v2.
  limits:
    'for f in cpu/cpu.shares cpu/cpu.cfs_quota_us memory/memory.limit_in_bytes pids/pids.max cpu.weight cpu.max memory.max pids.max; do if [ -e /sys/fs/cgroup/$f ]; then echo "limit $f $(cat /sys/fs/cgroup/$f)"; fi; done',
  ...volumeScripts,
} as const;

export type ViewPart = keyof typeof viewScripts;

/** The first word of each fact of a part. */
export function factKindOf(part: ViewPart): string {
  const several: Partial<Record<ViewPart, string>> = {
    mounts: "mount",
    limits: "limit",
    namespaces: "namespace",
    ...volumeFactKinds,
  };
  return several[part] ?? part;
}

/** The script for busybox' shell that writes these parts of the view. */
export function viewScript(...requested: readonly ViewPart[]): string {
  return `{ echo ${FIRST_LINE}; ${requested.map((part) => viewScripts[part]).join("; ")}; } > /dev/termination-log 2>&1`;
}

/** Kinds with one fact per name. All lines of any other kind form one fact. */
const factNamePatterns: Readonly<Record<string, RegExp>> = {
  env: /^([^=]*)=(.*)$/s,
  mount: /^(\S+) (.*)$/s,
  status: /^([^:]*): ?(.*)$/s,
  limit: /^(\S+) ?(.*)$/s,
  namespace: /^(\S+) ?(.*)$/s,
  ...Object.fromEntries(Object.values(volumeFactKinds).map((kind) => [kind, /^(\S+) ?(.*)$/s])),
};

/** Parses a termination message into facts by name. Returns undefined for a message that is not a complete view. */
export function readView(message: string): ReadonlyMap<string, string> | undefined {
  const [first, ...lines] = message.replace(/\n$/, "").split("\n");
  if (first !== FIRST_LINE) return undefined;
  const facts = new Map<string, string>();
  for (const line of lines) {
    const [, kind = "", rest = ""] = /^(\S+) ?(.*)$/.exec(line) ?? [];
    const [, name, value = ""] = factNamePatterns[kind]?.exec(rest) ?? [];
    const key = name === undefined ? kind : `${kind} ${name}`;
    const before = facts.get(key);
    const text = name === undefined ? withSortedOptions(rest) : value;
    facts.set(key, before === undefined ? text : `${before}\n${text}`);
  }
  return facts;
}

/** Sorts DNS options: the kubelet merges them in a Go map, which has no order. */
function withSortedOptions(line: string): string {
  const [first, ...values] = line.split(" ");
  return first === "options" ? [first, ...values.toSorted()].join(" ") : line;
}
