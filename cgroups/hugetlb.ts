import { hugePageName } from "../proto/cgroup/huge-pages.ts";
import type { CgroupHugetlbStats } from "../proto/cgroup/stats.ts";
import { bytesText, type Controller, parseLimit, readCount } from "./controller.ts";

/**
 * `hugetlb.SIZE.max` and `hugetlb.SIZE.rsvd.max`: what processes use, and what they reserve before they use it, which the
 * kernel counts since Linux 5.7. Both have one limit, so that a process that reserves too much fails at once and is not
 * killed later. Rule: opencontainers/cgroups. https://docs.kernel.org/admin-guide/cgroup-v2.html#hugetlb
 */
export const hugetlb: Controller = {
  limitFiles({ hugetlbMax = {} }, { hugePageSizes }) {
    return Object.entries(hugetlbMax).flatMap(([size, limit]) => {
      const pageBytes = hugePageSizes.find((each) => hugePageName(each) === size) ?? 1;
      const value = bytesText(limit, pageBytes);
      return [
        { file: `hugetlb.${size}.max`, value },
        { file: `hugetlb.${size}.rsvd.max`, value, isOptional: true },
      ];
    });
  },
  limits(read, { hugePageSizes }) {
    const limits = hugePageSizes.flatMap((pageBytes) => {
      const size = hugePageName(pageBytes);
      const file = `hugetlb.${size}.max`;
      const text = read(file);
      return text === undefined ? [] : [[size, parseLimit(file, text)] as const];
    });
    return limits.length === 0 ? {} : { hugetlbMax: Object.fromEntries(limits) };
  },
  stats(read, { hugePageSizes }) {
    const stats = hugePageSizes.flatMap((pageBytes): readonly (readonly [string, CgroupHugetlbStats])[] => {
      const size = hugePageName(pageBytes);
      const currentBytes = readCount(read, `hugetlb.${size}.current`);
      return currentBytes === undefined ? [] : [[size, { currentBytes }]];
    });
    return stats.length === 0 ? {} : { hugetlb: Object.fromEntries(stats) };
  },
};
