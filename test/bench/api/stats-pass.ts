// How long one pass over the cgroups of the pods takes, as a page of stats makes it, over a copied tree of cgroup v2.
//   bun test/bench/api/stats-pass.ts [--passes 60]
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type CgroupPodsDeps, readCgroupPods } from "../../../agent/observed/stats/cgroup-pods.ts";
import { createCpuRates } from "../../../agent/observed/stats/cpu-rates.ts";
import { createCgroupFiles } from "../../../cgroups/files.ts";
import { createCgroupUsageReader } from "../../../cgroups/usage.ts";
import { createClock } from "../../../host/clock.ts";
import { createProcStats } from "../../../host/proc-stats.ts";
import { type Figure, limit } from "../figures.ts";
import { medianOf } from "../statistics.ts";
import { textTable } from "../table.ts";

/** The pods of the tree, each with a sandbox and a container. */
export const STATS_PASS_PODS = 100;
/** What the pages of the kubelet's summary and of `kubectl top` read. */
const DETAILS = ["resources", "summary"] as const;
/** The first passes compile the code and fill the page cache. */
const WARM_UP_PASSES = 20;

/** Milliseconds of each pass. */
export type StatsPassTimes = Readonly<Record<(typeof DETAILS)[number], readonly number[]>>;

/** The lines of `memory.stat` of Linux 6.12, in the guest's order. */
const MEMORY_STAT = [
  ...["anon", "file", "kernel", "kernel_stack", "pagetables", "sec_pagetables", "percpu", "sock", "vmalloc", "shmem"],
  ...["zswap", "zswapped", "file_mapped", "file_dirty", "file_writeback", "swapcached", "anon_thp", "file_thp"],
  ...["shmem_thp", "inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable", "slab_reclaimable"],
  ...["slab_unreclaimable", "slab", "workingset_refault_anon", "workingset_refault_file", "workingset_activate_anon"],
  ...["workingset_activate_file", "workingset_restore_anon", "workingset_restore_file", "workingset_nodereclaim"],
  ...["pswpin", "pswpout", "pgscan", "pgsteal", "pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged"],
  ...["pgsteal_kswapd", "pgsteal_direct", "pgsteal_khugepaged", "pgfault", "pgmajfault", "pgrefill", "pgactivate"],
  ...["pgdeactivate", "pglazyfree", "pglazyfreed", "swpin_zero", "swpout_zero", "zswpin", "zswpout", "zswpwb"],
  ...["thp_fault_alloc", "thp_collapse_alloc", "thp_swpout", "thp_swpout_fallback"],
];
const PRESSURE = ["some", "full"].map((kind) => `${kind} avg10=0.12 avg60=1.34 avg300=0.98 total=123456789\n`).join("");
const CPU_STAT =
  "usage_usec 1234567890\nuser_usec 934567890\nsystem_usec 300000000\nnice_usec 0\ncore_sched.force_idle_usec 0\nnr_periods 123456\nnr_throttled 1234\nthrottled_usec 98765432\nnr_bursts 0\nburst_usec 0\n";

/** Files as long as the kernel's. The one process of a cgroup is this one, so that its network can be read. */
const FILES: Readonly<Record<string, string>> = {
  "cpu.stat": CPU_STAT,
  "cpu.pressure": PRESSURE,
  "memory.current": "123456789\n",
  "memory.stat": MEMORY_STAT.map((name, at) => `${name} ${at * 7_654_321}\n`).join(""),
  "memory.max": "268435456\n",
  "memory.swap.current": "0\n",
  "memory.swap.max": "0\n",
  "memory.pressure": PRESSURE,
  "io.pressure": PRESSURE,
  "pids.current": "3\n",
  "cgroup.procs": `${process.pid}\n`,
  "cgroup.events": "populated 1\nfrozen 0\n",
};

/** Measures each detail so many times in turns. The tree is in a temporary folder, which is removed. */
export async function measureStatsPass(passes: number): Promise<StatsPassTimes> {
  const root = await mkdtemp(join(tmpdir(), "berth-stats-pass-"));
  try {
    const deps = await makePods(root);
    const rates = createCpuRates();
    const measure = async (detail: (typeof DETAILS)[number]): Promise<number> => {
      const startedAt = performance.now();
      const pass = rates.begin(deps.clock.now());
      const { pods } = await readCgroupPods(deps, detail, pass);
      pass.end();
      const tookMs = performance.now() - startedAt;
      const complete = pods.filter(({ containers }) => containers[0]?.usage?.memory !== undefined);
      if (complete.length !== STATS_PASS_PODS) throw new Error(`${complete.length} pods have figures`);
      return tookMs;
    };
    const times: { readonly [D in (typeof DETAILS)[number]]: number[] } = { resources: [], summary: [] };
    for (let pass = 0; pass < WARM_UP_PASSES + passes; pass++)
      for (const detail of DETAILS) {
        const tookMs = await measure(detail);
        if (pass >= WARM_UP_PASSES) times[detail].push(tookMs);
      }
    return times;
  } finally {
    await rm(root, { recursive: true });
  }
}

async function makePods(root: string): Promise<CgroupPodsDeps> {
  const slice = "/kubepods.slice";
  const known = new Map<string, { readonly isSandbox: boolean; readonly name: string; readonly uid: string }>();
  const paths = [slice, `${slice}/kubepods-burstable.slice`];
  for (let pod = 0; pod < STATS_PASS_PODS; pod++) {
    const uid = `00000000-0000-4000-8000-${String(pod).padStart(12, "0")}`;
    const path = `${paths[1]}/kubepods-burstable-pod${uid.replaceAll("-", "_")}.slice`;
    const [sandbox, container] = ["a", "b"].map((kind) => kind.repeat(52) + String(pod).padStart(12, "0"));
    known.set(sandbox ?? "", { isSandbox: true, name: "", uid });
    known.set(container ?? "", { isSandbox: false, name: "main", uid });
    paths.push(path, ...[sandbox, container].map((id) => `${path}/cri-containerd-${id}.scope`));
  }
  for (const path of paths) {
    await mkdir(join(root, path), { recursive: true });
    for (const [file, text] of Object.entries(FILES)) await writeFile(join(root, path, file), text);
  }
  const indexed = [...known].map(([id, { isSandbox, name, uid }]) => {
    const pod = { name: `web-${uid}`, namespace: "default", uid };
    return [id, { id, isSandbox, name, image: "registry.test/web:1", createdAtMs: 0, pod }] as const;
  });
  return {
    cgroups: createCgroupUsageReader(root, createCgroupFiles()),
    podsPath: async () => slice,
    index: { byId: async () => new Map(indexed), list: async () => ({ sandboxes: [], containers: [] }) },
    processes: { of: async () => new Map() },
    proc: createProcStats(),
    clock: createClock(),
  };
}

/** A row for each detail. */
export function statsPassFigures(times: StatsPassTimes): readonly Figure[] {
  return DETAILS.map((detail) => ({
    what: `one pass over the cgroups of ${STATS_PASS_PODS} pods, ${detail}`,
    unit: "ms",
    berth: medianOf(times[detail]),
    isSingle: true,
    goal: limit(15),
  }));
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { passes: { type: "string", default: "60" } } });
  console.log(textTable(statsPassFigures(await measureStatsPass(Number(values.passes))), "api"));
}
