import { expect, test } from "bun:test";
import type { IdRange } from "./user-namespace.ts";
import { idSpaceOf, nextRange, type Subids } from "./user-namespace-ids.ts";

const line = (first: number, length: number) => `0: kubelet ${first} ${length}\n`;
const alike = (text: string): Subids => ({ users: text, groups: text });

const spaces: readonly [
  title: string,
  subids: Subids | undefined,
  idsPerPod: number,
  maxPods: number,
  says: unknown,
][] = [
  [
    "without any set aside, all but the first ones are the pods'",
    undefined,
    65_536,
    110,
    { first: 65_536, length: 2 ** 32 - 65_536, idsPerPod: 65_536 },
  ],
  [
    "what is left over at the end is nobody's",
    undefined,
    3 * 65_536,
    110,
    { first: 3 * 65_536, length: 21_844 * 3 * 65_536, idsPerPod: 3 * 65_536 },
  ],
  [
    "those that are set aside, where they are enough for all pods",
    alike(line(65_536, 110 * 65_536)),
    65_536,
    110,
    { first: 65_536, length: 110 * 65_536, idsPerPod: 65_536 },
  ],
  [
    "those of groups have to be those of users",
    { users: line(65_536, 65_536), groups: line(131_072, 65_536) },
    65_536,
    1,
    'users and groups are not the same: "0: kubelet 65536 65536" and "0: kubelet 131072 65536"; make both lines in /etc/subuid and /etc/subgid alike',
  ],
  [
    "one range, no more",
    alike(line(65_536, 65_536) + line(131_072, 65_536)),
    65_536,
    1,
    'there is to be one range, found "0: kubelet 65536 65536\\n0: kubelet 131072 65536": let /etc/subuid and /etc/subgid have one line of kubelet each, such as kubelet:65536:65536',
  ],
  [
    "a word is no range",
    alike("Error fetching ranges"),
    65_536,
    1,
    'there is to be one range, found "Error fetching ranges": let /etc/subuid and /etc/subgid have one line of kubelet each, such as kubelet:65536:65536',
  ],
  [
    "it begins where a pod's ids do",
    alike(line(100_000, 65_536 * 2)),
    65_536,
    1,
    "the first id is 100000, and must be a multiple of 65536, the ids of a pod, and not 0",
  ],
  [
    "the node's own root is not set aside for pods",
    alike(line(0, 65_536 * 200)),
    65_536,
    110,
    "the first id is 0, and must be a multiple of 65536, the ids of a pod, and not 0",
  ],
  [
    "it ends where a pod's ids do",
    alike(line(65_536, 65_537)),
    65_536,
    1,
    "there are 65537 ids, which must be a multiple of 65536, the ids of a pod",
  ],
  [
    "it has enough for all pods",
    alike(line(65_536, 65_536 * 109)),
    65_536,
    110,
    "there are 7143424 ids, which is not enough for 110 pods (maxPods) of 65536 each (userNamespaces.idsPerPod): 7208960 are needed",
  ],
  [
    "there are no ids beyond the last one",
    alike(line(4_294_901_760, 131_072)),
    65_536,
    1,
    "the last id would be 4295032831, and must be less than 4294967296",
  ],
  [
    "pods may not ask for more than there is",
    undefined,
    2 ** 31,
    2,
    "there are 2147483648 ids, which is not enough for 2 pods (maxPods) of 2147483648 each (userNamespaces.idsPerPod): 4294967296 are needed",
  ],
];

for (const [title, subids, idsPerPod, maxPods, says] of spaces)
  test(title, () => expect(idSpaceOf(subids, idsPerPod, maxPods)).toEqual(says as never));

const three = { first: 65_536, length: 3 * 65_536, idsPerPod: 65_536 };
const at = (place: number, length = 65_536): IdRange => ({ first: 65_536 * (place + 1), length });

const ranges: readonly [
  title: string,
  used: readonly IdRange[],
  last: IdRange | undefined,
  next: number | undefined,
][] = [
  ["the first one is the first", [], undefined, 0],
  ["the next one stands behind the last", [at(0)], at(0), 1],
  ["one that was given back is not the next one's at once", [], at(0), 1],
  ["behind the last place comes the first", [at(2)], at(2), 0],
  ["what is taken is passed over", [at(1)], at(0), 2],
  ["no place is none", [at(0), at(1), at(2)], at(2), undefined],
  ["a longer range of an earlier configuration takes all that it touches", [at(0, 2 * 65_536)], undefined, 2],
  ["one that lies before the others' takes none of theirs", [{ first: 1, length: 65_535 }], undefined, 0],
  ["one that begins in the middle of a place takes it", [{ first: 65_536 + 7, length: 65_536 }], undefined, 2],
  ["one that lies elsewhere may be the last, too", [], at(-1), 0],
  ["one far behind, likewise", [], at(7), 2],
];

for (const [title, used, last, next] of ranges)
  test(title, () => expect(nextRange(three, used, last)).toEqual(next === undefined ? undefined : at(next)));

test("places of an earlier, longer length are not given away again", () => {
  const space = { ...three, length: 4 * 65_536, idsPerPod: 2 * 65_536, first: 2 * 65_536 };
  const next = nextRange(space, [at(2)], undefined);
  expect(next).toEqual({ first: 4 * 65_536, length: 2 * 65_536 });
});
