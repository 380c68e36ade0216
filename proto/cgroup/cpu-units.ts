/*
 * Kubernetes counts CPU in thousandths; the kernel counts it as a weight among siblings and as a quota per period.
 * Between them are the shares of cgroup v1, which CRI still carries:
 *
 *   milli-CPU ──1024 per CPU──► shares (2 … 262144) ──linear──► cpu.weight (1 … 10000)
 *
 * Rule: the kubelet's MilliCPUToShares, MilliCPUToQuota and getCPUWeight, and their inverses.
 */

const SHARES_PER_CPU = 1024;
const MIN_SHARES = 2;
const MAX_SHARES = 262_144;
const MIN_QUOTA_US = 1000;

/** `cpu.weight` of a cgroup whose processes requested no CPU: the kernel's minimum. */
export const MIN_CPU_WEIGHT = 1;
const MAX_CPU_WEIGHT = 10_000;

/** The period of a cgroup in which nothing else was written, in microseconds. */
export const DEFAULT_CPU_PERIOD_US = 100_000;

/** The largest quota that the kernel accepts, 2^44 − 1 microseconds; it rejects more with EINVAL. */
export const MAX_QUOTA_US = 2 ** 44 - 1;

/** The shares of a request in milli-CPUs: 1024 per CPU, rounded down, between 2 and 262144. */
export function cpuShares(milliCpu: number): number {
  return Math.min(Math.max(Math.floor((milliCpu * SHARES_PER_CPU) / 1000), MIN_SHARES), MAX_SHARES);
}

/**
 * The request in milli-CPUs that shares stand for, rounded up. The round trip of a request is at most one milli-CPU
 * above it; below two shares it is 0.
 */
export function sharesToMilliCpu(shares: number): number {
  return shares < MIN_SHARES ? 0 : Math.ceil((shares * 1000) / SHARES_PER_CPU);
}

/**
 * `cpu.weight` of a cgroup of the agent's own, from a request in milli-CPUs. The weight of a container is the runtime's,
 * which may use another curve.
 */
export function cpuWeight(milliCpu: number): number {
  const aboveMin = cpuShares(milliCpu) - MIN_SHARES;
  return MIN_CPU_WEIGHT + Math.floor((aboveMin * (MAX_CPU_WEIGHT - MIN_CPU_WEIGHT)) / (MAX_SHARES - MIN_SHARES));
}

/** The shares that a `cpu.weight` stands for, rounded down. */
export function weightToShares(weight: number): number {
  return (
    Math.floor(((weight - MIN_CPU_WEIGHT) * (MAX_SHARES - MIN_SHARES)) / (MAX_CPU_WEIGHT - MIN_CPU_WEIGHT)) + MIN_SHARES
  );
}

/** The quota in microseconds per period of a limit in milli-CPUs: at least 1 ms, which is 10m of a period of 100 ms. */
export function cpuQuotaUs(milliCpu: number, periodUs: number): number {
  return Math.max(Math.floor((milliCpu * periodUs) / 1000), MIN_QUOTA_US);
}

/** The limit in milli-CPUs that a quota stands for, rounded down; 0 for none, which is a quota of 0 or less. */
export function quotaToMilliCpu(quotaUs: number, periodUs: number): number {
  return quotaUs <= 0 || periodUs <= 0 ? 0 : Math.floor((quotaUs * 1000) / periodUs);
}
