import type { IdRange } from "./user-namespace.ts";

/** All ids of the node that pods may have, and how many each of them gets. */
export interface IdSpace extends IdRange {
  readonly idsPerPod: number;
}

const IDS = 2 ** 32;
/** What `idsPerPod` is a multiple of; that many ids a file system, or an archive, may name. */
const UNIT = 65_536;

/** What `getsubids` prints of one user, for users and for groups. */
export interface Subids {
  readonly users: string;
  readonly groups: string;
}

/**
 * The ids that pods of the node get: those that are set aside for the user `kubelet`, or all but the first ones, which are the node's
 * own. A text says why these cannot be used.
 */
export function idSpaceOf(subids: Subids | undefined, idsPerPod: number, maxPods: number): IdSpace | string {
  if (subids === undefined) {
    // No less than all that fit: what is left over at the end is less than a pod wants.
    const places = Math.floor((IDS - idsPerPod) / idsPerPod);
    return checked({ first: idsPerPod, length: places * idsPerPod, idsPerPod }, maxPods);
  }
  const { users, groups } = subids;
  if (users !== groups)
    return `users and groups are not the same: ${quoted(users)} and ${quoted(groups)}; make both lines in /etc/subuid and /etc/subgid alike`;
  const range = parseSubids(users);
  return range === undefined
    ? `there is to be one range, found ${quoted(users)}: let /etc/subuid and /etc/subgid have one line of kubelet each, such as kubelet:${UNIT}:${maxPods * idsPerPod}`
    : checked({ ...range, idsPerPod }, maxPods);
}

/** `0: kubelet 65536 2147483648` */
function parseSubids(text: string): IdRange | undefined {
  const [, first, length] = /^\s*\S+\s+\S+\s+(\d{1,10})\s+(\d{1,10})\s*$/.exec(text) ?? [];
  return first === undefined || length === undefined ? undefined : { first: Number(first), length: Number(length) };
}

function checked(space: IdSpace, maxPods: number): IdSpace | string {
  const { first, length, idsPerPod } = space;
  if (first < idsPerPod || first % idsPerPod !== 0)
    return `the first id is ${first}, and must be a multiple of ${idsPerPod}, the ids of a pod, and not 0`;
  if (length % idsPerPod !== 0)
    return `there are ${length} ids, which must be a multiple of ${idsPerPod}, the ids of a pod`;
  if (first + length > IDS) return `the last id would be ${first + length - 1}, and must be less than ${IDS}`;
  if (length / idsPerPod < maxPods)
    return `there are ${length} ids, which is not enough for ${maxPods} pods (maxPods) of ${idsPerPod} each (userNamespaces.idsPerPod): ${maxPods * idsPerPod} are needed`;
  return space;
}

const quoted = (text: string) => JSON.stringify(text.trim());

/**
 * A range that touches none of those that are used, the next one behind `last`, so that what a pod has left somewhere is not at once
 * another one's. Undefined where there is none. Ranges of an earlier configuration may have another length, or lie elsewhere.
 */
export function nextRange(space: IdSpace, used: Iterable<IdRange>, last: IdRange | undefined): IdRange | undefined {
  const { first, idsPerPod } = space;
  const places = Math.floor(space.length / idsPerPod);
  const taken = new Set<number>();
  for (const range of used) {
    const from = Math.max(0, Math.floor((range.first - first) / idsPerPod));
    const to = Math.min(places, Math.ceil((range.first + range.length - first) / idsPerPod));
    for (let place = from; place < to; place++) taken.add(place);
  }
  const begin = last === undefined ? 0 : Math.floor((last.first - first) / idsPerPod) + 1;
  for (let n = 0; n < places; n++) {
    const place = (((begin + n) % places) + places) % places;
    if (!taken.has(place)) return { first: first + place * idsPerPod, length: idsPerPod };
  }
  return undefined;
}
