// The variables of the environment that choose how much a test run tries.

/** With each of these a run tries less than everything, so that its result says less than its name. */
export const reducingVariables: readonly string[] = [
  "FUZZ_RUNS",
  "REPEAT_EVERY",
  "DIE_AT",
  "DIE_EVERY",
  "BERTH_PODS",
  "BERTH_CHAOS",
  "BERTH_MANY_PODS",
  "BERTH_MEMORY_PODS",
  "BERTH_SESSIONS",
  "BERTH_CONTAINERD",
  "BERTH_DELEGATE_FORM",
  "BERTH_WITHOUT_UPSTREAM",
];

/** The other variables that the tests read, and what each does. */
export const otherVariables: Readonly<Record<string, string>> = {
  BERTH_SEED: "repeats what is random",
  DIE_BOTH: "tries every death with both sources of the runtime's events",
  BERTH_LIVE_KUBELETS: "runs two kubelets beside Berth",
  BERTH_REQUIRE_ALL: "counts a skipped test as a failure",
  CI: "counts a skipped test as a failure",
  BERTH_STATE: "the state folder of `npm run up`",
  PATH: "where the programs are",
  XDG_CACHE_HOME: "where the cache is",
  TMPDIR: "where temporary files are",
  KUBEBUILDER_ASSETS: "where the upstream programs are",
  KUBE_TOKEN: "the token of an API server that is recorded",
};

/** The variables that are set and make a run smaller. An empty value counts, too: a number of inputs would be 0. */
export function reducedBy(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  return reducingVariables.filter((name) => env[name] !== undefined);
}
