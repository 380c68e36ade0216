/*
 * What a container sees of itself, as it writes it to its termination log: one line a fact, with what it is of as its first word. The
 * log is cut at 4096 bytes from its end, so a view has only the parts that its pod is about, and a first line by which one that was cut is
 * known.
 */

const FIRST_LINE = "view";

const parts = {
  env: "env | sort | sed 's/^/env /'",
  hostname: 'echo "hostname $(hostname)"',
  hosts: "sed 's/^/hosts /' /etc/hosts",
  resolv: "sed 's/^/resolv /' /etc/resolv.conf",
  id: 'echo "id $(id)"',
  cwd: 'echo "cwd $(pwd)"',
  args: 'echo "args $#: $*"',
  // Of a file system's options only those that say what may be done with it.
  mounts:
    'awk \'{n = split($4, o, ","); s = ""; for (i = 1; i <= n; i++) if (o[i] ~ /^(ro|rw|nosuid|nodev|noexec)$/) s = s " " o[i]; print "mount", $2, $3 s}\' /proc/mounts | grep -v \' /sys/fs/cgroup/\'',
  status: "grep -E '^(Cap|Seccomp:|NoNewPrivs|Groups)' /proc/self/status | tr -s '\\t ' ' ' | sed 's/^/status /'",
  oom: 'echo "oom $(cat /proc/self/oom_score_adj)"',
  first: 'echo "first $(cat /proc/1/comm)"',
  namespaces: 'for ns in net pid ipc uts; do echo "namespace $ns $(readlink /proc/self/ns/$ns)"; done',
  // The first names are those of cgroup v1, the others those of v2.
  limits:
    'for f in cpu/cpu.shares cpu/cpu.cfs_quota_us memory/memory.limit_in_bytes pids/pids.max cpu.weight cpu.max memory.max pids.max; do if [ -e /sys/fs/cgroup/$f ]; then echo "limit $f $(cat /sys/fs/cgroup/$f)"; fi; done',
} as const;

export type ViewPart = keyof typeof parts;

/** How the facts of a part begin. */
export function kindOf(part: ViewPart): string {
  const several: Partial<Record<ViewPart, string>> = { mounts: "mount", limits: "limit", namespaces: "namespace" };
  return several[part] ?? part;
}

/** The script that writes these parts of the view, for busybox' shell. */
export function viewScript(...wanted: readonly ViewPart[]): string {
  return `{ echo ${FIRST_LINE}; ${wanted.map((part) => parts[part]).join("; ")}; } > /dev/termination-log 2>&1`;
}

/** Of which there is one fact for each name; of the others, all lines are one. */
const namedBy: Readonly<Record<string, RegExp>> = {
  env: /^([^=]*)=(.*)$/s,
  mount: /^(\S+) (.*)$/s,
  status: /^([^:]*): ?(.*)$/s,
  limit: /^(\S+) ?(.*)$/s,
  namespace: /^(\S+) ?(.*)$/s,
};

/** Reads a message back: what of the view is called how, and what it says. Undefined for a message that is no view. */
export function readView(message: string): ReadonlyMap<string, string> | undefined {
  const [first, ...lines] = message.replace(/\n$/, "").split("\n");
  if (first !== FIRST_LINE) return undefined;
  const facts = new Map<string, string>();
  for (const line of lines) {
    const [, kind = "", rest = ""] = /^(\S+) ?(.*)$/.exec(line) ?? [];
    const [, name, value = ""] = namedBy[kind]?.exec(rest) ?? [];
    const key = name === undefined ? kind : `${kind} ${name}`;
    const before = facts.get(key);
    const said = name === undefined ? inOrder(rest) : value;
    facts.set(key, before === undefined ? said : `${before}\n${said}`);
  }
  return facts;
}

/** The options of DNS have no order: the kubelet merges them in one of Go's maps. */
function inOrder(line: string): string {
  const [first, ...words] = line.split(" ");
  return first === "options" ? [first, ...words.toSorted()].join(" ") : line;
}
