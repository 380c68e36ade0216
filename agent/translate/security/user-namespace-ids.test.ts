import { expect, test } from "bun:test";
import type { IdRange } from "./user-namespace.ts";
import { allocateRange, createIdPool, type Subids } from "./user-namespace-ids.ts";

const line = (first: number, length: number) => `0: kubelet ${first} ${length}\n`;
const sameForGroups = (text: string): Subids => ({ users: text, groups: text });

const pools: readonly [title: string, subids: Subids | undefined, idsPerPod: number, maxPods: number, says: unknown][] =
  [
    [
      "without subordinate ids the pool holds all ids above the first range",
      undefined,
      65_536,
      110,
      { first: 65_536, length: 2 ** 32 - 65_536, idsPerPod: 65_536 },
    ],
    [
      "a remainder at the end is not part of the pool",
      undefined,
      3 * 65_536,
      110,
      { first: 3 * 65_536, length: 21_844 * 3 * 65_536, idsPerPod: 3 * 65_536 },
    ],
    [
      "subordinate ids are used when they suffice for all pods",
      sameForGroups(line(65_536, 110 * 65_536)),
      65_536,
      110,
      { first: 65_536, length: 110 * 65_536, idsPerPod: 65_536 },
    ],
    [
      "user and group ranges must be equal",
      { users: line(65_536, 65_536), groups: line(131_072, 65_536) },
      65_536,
      1,
      'the user and group ranges of kubelet differ: "0: kubelet 65536 65536" and "0: kubelet 131072 65536"; /etc/subuid and /etc/subgid must have the same line for kubelet',
    ],
    [
      "two ranges are rejected",
      sameForGroups(line(65_536, 65_536) + line(131_072, 65_536)),
      65_536,
      1,
      'expected one range of kubelet, found "0: kubelet 65536 65536\\n0: kubelet 131072 65536": /etc/subuid and /etc/subgid must have one line each, such as kubelet:65536:65536',
    ],
    [
      "an error message of getsubids is rejected",
      sameForGroups("Error fetching ranges"),
      65_536,
      1,
      'expected one range of kubelet, found "Error fetching ranges": /etc/subuid and /etc/subgid must have one line each, such as kubelet:65536:65536',
    ],
    [
      "the first id must be a multiple of idsPerPod",
      sameForGroups(line(100_000, 65_536 * 2)),
      65_536,
      1,
      "the first id is 100000, but must be a positive multiple of 65536 (userNamespaces.idsPerPod)",
    ],
    [
      "the first id must not be the node's root",
      sameForGroups(line(0, 65_536 * 200)),
      65_536,
      110,
      "the first id is 0, but must be a positive multiple of 65536 (userNamespaces.idsPerPod)",
    ],
    [
      "the number of ids must be a multiple of idsPerPod",
      sameForGroups(line(65_536, 65_537)),
      65_536,
      1,
      "there are 65537 ids, but the number must be a multiple of 65536 (userNamespaces.idsPerPod)",
    ],
    [
      "the range must suffice for maxPods",
      sameForGroups(line(65_536, 65_536 * 109)),
      65_536,
      110,
      "there are 7143424 ids, which is not enough for 110 pods (maxPods) of 65536 each (userNamespaces.idsPerPod): 7208960 are needed",
    ],
    [
      "the range must end below 2^32",
      sameForGroups(line(4_294_901_760, 131_072)),
      65_536,
      1,
      "the last id would be 4295032831, and must be less than 4294967296",
    ],
    [
      "idsPerPod times maxPods must fit below 2^32",
      undefined,
      2 ** 31,
      2,
      "there are 2147483648 ids, which is not enough for 2 pods (maxPods) of 2147483648 each (userNamespaces.idsPerPod): 4294967296 are needed",
    ],
  ];

for (const [title, subids, idsPerPod, maxPods, expected] of pools)
  test(title, () => expect(createIdPool(subids, idsPerPod, maxPods)).toEqual(expected as never));

const poolOfThree = { first: 65_536, length: 3 * 65_536, idsPerPod: 65_536 };
const at = (slot: number, length = 65_536): IdRange => ({ first: 65_536 * (slot + 1), length });

const ranges: readonly [
  title: string,
  used: readonly IdRange[],
  last: IdRange | undefined,
  next: number | undefined,
][] = [
  ["the first allocation is the first range", [], undefined, 0],
  ["the next range follows the last one", [at(0)], at(0), 1],
  ["a released range is not reused at once", [], at(0), 1],
  ["allocation wraps around at the end of the pool", [at(2)], at(2), 0],
  ["a used range is skipped", [at(1)], at(0), 2],
  ["an exhausted pool allocates nothing", [at(0), at(1), at(2)], at(2), undefined],
  ["a longer range of an earlier configuration blocks every range it overlaps", [at(0, 2 * 65_536)], undefined, 2],
  ["a range before the pool blocks nothing", [{ first: 1, length: 65_535 }], undefined, 0],
  ["an unaligned range blocks the range it overlaps", [{ first: 65_536 + 7, length: 65_536 }], undefined, 2],
  ["the last range may lie before the pool", [], at(-1), 0],
  ["the last range may lie after the pool", [], at(7), 2],
];

for (const [title, used, last, next] of ranges)
  test(title, () => expect(allocateRange(poolOfThree, used, last)).toEqual(next === undefined ? undefined : at(next)));

test("the ranges of an earlier, longer idsPerPod are not allocated again", () => {
  const space = { ...poolOfThree, length: 4 * 65_536, idsPerPod: 2 * 65_536, first: 2 * 65_536 };
  const next = allocateRange(space, [at(2)], undefined);
  expect(next).toEqual({ first: 4 * 65_536, length: 2 * 65_536 });
});
