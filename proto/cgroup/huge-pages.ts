import { HUGE_PAGES_PREFIX, isHugePages, type ResourceQuantities } from "../kubernetes/resource-list.ts";
import { parseQuantity, QuantityError, toNumber } from "../kubernetes/values/quantity.ts";
import type { CgroupLimits } from "./limits.ts";

/** Formats a page size in bytes as the kernel names its hugetlb files: `2MB`, `1GB`. */
export function hugePageName(pageBytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  const power = units.findLastIndex((_, index) => pageBytes % 1024 ** index === 0);
  return `${pageBytes / 1024 ** power}${units[power]}`;
}

/**
 * The bytes of huge pages in a resource list, by the page size in bytes. Two notations of a size (`hugepages-2Mi`,
 * `hugepages-2048Ki`) add up; an unreadable size is left out. Rule: the kubelet's HugePageLimits.
 */
export function hugePageBytes(amounts: ResourceQuantities): ReadonlyMap<number, number> {
  const bytes = new Map<number, number>();
  for (const [name, amount] of amounts) {
    const size = isHugePages(name) ? pageBytesOf(name) : undefined;
    if (size !== undefined) bytes.set(size, (bytes.get(size) ?? 0) + toNumber(amount));
  }
  return bytes;
}

/** The page size of a resource name; undefined if its size is unreadable, so that it names no page of the kernel. */
function pageBytesOf(name: string): number | undefined {
  try {
    return toNumber(parseQuantity(name.slice(HUGE_PAGES_PREFIX.length)));
  } catch (error) {
    if (error instanceof QuantityError) return undefined;
    throw error;
  }
}

/** A limit that no node reaches, as the kubelet writes it to the cgroups above those of pods. */
const UNLIMITED_BYTES = 2 ** 62;

/** `hugetlb.SIZE.max` of a cgroup that limits huge pages (of these sizes, in bytes) neither itself nor for its children. */
export function unlimitedHugePages(kernelSizes: readonly number[]): NonNullable<CgroupLimits["hugetlbMax"]> {
  return Object.fromEntries(kernelSizes.map((size) => [hugePageName(size), UNLIMITED_BYTES]));
}
