import type { IdRange } from "./user-namespace.ts";

/** The host ids that pods in user namespaces may use, and how many each pod gets. */
export interface IdPool extends IdRange {
  readonly idsPerPod: number;
}

const ID_COUNT = 2 ** 32;
/** `idsPerPod` is a multiple of this: the number of ids that images and file systems can be expected to use. */
const IDS_UNIT = 65_536;

/** The output of `getsubids` for the user `kubelet`: its user ids and its group ids. */
export interface Subids {
  readonly users: string;
  readonly groups: string;
}

/**
 * The id pool of the node: the subordinate ids of the user `kubelet`, or without such a user all ids above the first
 * `idsPerPod`, which stay the node's own. Returns a message when the ids cannot be used.
 */
export function createIdPool(subids: Subids | undefined, idsPerPod: number, maxPods: number): IdPool | string {
  if (subids === undefined) {
    // Only whole ranges: a remainder at the end is too small for a pod.
    const slotCount = Math.floor((ID_COUNT - idsPerPod) / idsPerPod);
    return validatePool({ first: idsPerPod, length: slotCount * idsPerPod, idsPerPod }, maxPods);
  }
  const { users, groups } = subids;
  if (users !== groups)
    return `the user and group ranges of kubelet differ: ${quoted(users)} and ${quoted(groups)}; /etc/subuid and /etc/subgid must have the same line for kubelet`;
  const range = parseSubids(users);
  return range === undefined
    ? `expected one range of kubelet, found ${quoted(users)}: /etc/subuid and /etc/subgid must have one line each, such as kubelet:${IDS_UNIT}:${maxPods * idsPerPod}`
    : validatePool({ ...range, idsPerPod }, maxPods);
}

/** Parses a line such as `0: kubelet 65536 2147483648`. */
function parseSubids(text: string): IdRange | undefined {
  const [, first, length] = /^\s*\S+\s+\S+\s+(\d{1,10})\s+(\d{1,10})\s*$/.exec(text) ?? [];
  return first === undefined || length === undefined ? undefined : { first: Number(first), length: Number(length) };
}

function validatePool(pool: IdPool, maxPods: number): IdPool | string {
  const { first, length, idsPerPod } = pool;
  if (first < idsPerPod || first % idsPerPod !== 0)
    return `the first id is ${first}, but must be a positive multiple of ${idsPerPod} (userNamespaces.idsPerPod)`;
  if (length % idsPerPod !== 0)
    return `there are ${length} ids, but the number must be a multiple of ${idsPerPod} (userNamespaces.idsPerPod)`;
  if (first + length > ID_COUNT) return `the last id would be ${first + length - 1}, and must be less than ${ID_COUNT}`;
  if (length / idsPerPod < maxPods)
    return `there are ${length} ids, which is not enough for ${maxPods} pods (maxPods) of ${idsPerPod} each (userNamespaces.idsPerPod): ${maxPods * idsPerPod} are needed`;
  return pool;
}

const quoted = (text: string) => JSON.stringify(text.trim());

/**
 * Returns a free range that overlaps no used one; undefined when the pool is exhausted. Starts after `last`, so that
 * files left behind by a removed pod do not belong to the next one at once. Ranges from an earlier configuration may
 * have another length or offset.
 */
export function allocateRange(pool: IdPool, used: Iterable<IdRange>, last: IdRange | undefined): IdRange | undefined {
  const { first, idsPerPod } = pool;
  const slotCount = Math.floor(pool.length / idsPerPod);
  const usedSlots = new Set<number>();
  for (const range of used) {
    const from = Math.max(0, Math.floor((range.first - first) / idsPerPod));
    const to = Math.min(slotCount, Math.ceil((range.first + range.length - first) / idsPerPod));
    for (let slot = from; slot < to; slot++) usedSlots.add(slot);
  }
  const begin = last === undefined ? 0 : Math.floor((last.first - first) / idsPerPod) + 1;
  for (let n = 0; n < slotCount; n++) {
    const slot = (((begin + n) % slotCount) + slotCount) % slotCount;
    if (!usedSlots.has(slot)) return { first: first + slot * idsPerPod, length: idsPerPod };
  }
  return undefined;
}
