/**
 * The CPUs of a list in the kernel's format, such as `0-3,8`. An empty list is an empty set; undefined for a text that is
 * no list, or has numbers beyond what any kernel supports (six digits). https://docs.kernel.org/admin-guide/kernel-parameters.html, "cpu lists"
 */
export function parseCpuList(list: string): ReadonlySet<number> | undefined {
  const cpus = new Set<number>();
  if (list.trim() === "") return cpus;
  for (const part of list.split(",")) {
    const [, first, last = first] = /^\s*(\d{1,6})(?:-(\d{1,6}))?\s*$/.exec(part) ?? [];
    if (first === undefined || Number(first) > Number(last)) return undefined;
    for (let cpu = Number(first); cpu <= Number(last); cpu += 1) cpus.add(cpu);
  }
  return cpus;
}

/** CPUs as the kernel shows them: sorted, and several in succession as a range. */
export function formatCpuList(cpus: ReadonlySet<number>): string {
  const ranges: { first: number; last: number }[] = [];
  for (const cpu of [...cpus].toSorted((a, b) => a - b)) {
    const range = ranges.at(-1);
    if (range?.last === cpu - 1) range.last = cpu;
    else ranges.push({ first: cpu, last: cpu });
  }
  return ranges.map(({ first, last }) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}
