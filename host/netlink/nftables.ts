// Tables, chains, rules and maps of nftables over nfnetlink. Every change is a list of requests that the kernel carries
// out all or none, without an interruption for the traffic.

import {
  type Attribute,
  attributesByType,
  be16,
  be32,
  concat,
  decodeAttributes,
  type MessageInput,
  NLM_F_APPEND,
  NLM_F_CREATE,
  NLM_F_REQUEST,
  readBe32,
  readText,
  text,
} from "./codec.ts";
import { unlessCode } from "./error.ts";
import type { NftExpression } from "./nft-expressions.ts";
import { decodeRule, type FilterRule } from "./nft-rules.ts";
import type { NetlinkRequest, NetlinkSocket } from "./socket.ts";

const NFNL_MSG_BATCH_BEGIN = 16;
const NFNL_MSG_BATCH_END = 17;
const NFNL_SUBSYS_NFTABLES = 10;
const NFPROTO_UNSPEC = 0;
const NFPROTO_INET = 1;
/** The families whose chains see what the machine forwards between networks. */
const FAMILY_NUMBERS = { inet: NFPROTO_INET, ip: 2, ip6: 10 } as const;
const FAMILY_NAMES: Readonly<Record<number, NftChain["family"]>> = { 1: "inet", 2: "ip", 10: "ip6" };
const NFT_MSG = {
  newTable: 0,
  deleteTable: 2,
  newChain: 3,
  getChain: 4,
  deleteChain: 5,
  newRule: 6,
  getRule: 7,
  deleteRule: 8,
  newSet: 9,
  newSetElement: 12,
  getSetElement: 13,
  deleteSetElement: 14,
  getGeneration: 16,
} as const;

/** struct nfgenmsg: family, version, id of the resource. */
const nfgen = (family: number, resource = 0) => concat(Uint8Array.of(family, 0), be16(resource));

const batchMark = (type: number, attributes: readonly Attribute[] = []): MessageInput => ({
  type,
  flags: NLM_F_REQUEST,
  body: nfgen(0, NFNL_SUBSYS_NFTABLES),
  attributes,
});

const request = (
  type: keyof typeof NFT_MSG,
  flags: number,
  attributes: readonly Attribute[],
  what: string,
): NetlinkRequest => ({
  type: (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG[type],
  flags,
  body: nfgen(NFPROTO_INET),
  attributes,
  what,
});

/** Carries out all requests, or throws the refusal of one and carries out none. */
export function change(socket: NetlinkSocket, requests: readonly NetlinkRequest[]): void {
  carryOut(socket, requests, []);
}

function carryOut(socket: NetlinkSocket, requests: readonly NetlinkRequest[], ofBatch: readonly Attribute[]): void {
  if (requests.length === 0) return;
  socket.batch(batchMark(NFNL_MSG_BATCH_BEGIN, ofBatch), requests, batchMark(NFNL_MSG_BATCH_END));
}

/** NFNL_BATCH_GENID: the kernel refuses the batch with `ERESTART` if the rules have another generation. */
const BATCH_GENERATION = 1;
/** So many tries fail only if another program changes the rules during each of them. */
const MAX_TRIES = 16;

/**
 * Carries out what `plan` returns, all or none. `plan` reads the rules: it is called again if any program changes them between its read and
 * the change. Throws the refusal of a request, and `ERESTART` if that happens again and again.
 */
export function changeAsRead(socket: NetlinkSocket, plan: () => readonly NetlinkRequest[]): void {
  for (let tries = 1; ; tries++) {
    const generation = readGeneration(socket);
    const requests = plan();
    const ofBatch = generation === undefined ? [] : [[BATCH_GENERATION, be32(generation)] as const];
    const isDone = unlessCode(tries === MAX_TRIES ? [] : ["ERESTART"], () => {
      carryOut(socket, requests, ofBatch);
      return true;
    });
    if (isDone === true) return;
  }
}

/** Creates a table of the family inet, if it does not exist. */
export const newTable = (table: string): NetlinkRequest =>
  request("newTable", NLM_F_CREATE, [[1, text(table)]], `create the nftables table inet ${table}`);

/** Deletes a table of the family inet with all that is in it. The kernel refuses an absent one with `ENOENT`. */
export const deleteTable = (table: string): NetlinkRequest =>
  request("deleteTable", 0, [[1, text(table)]], `delete the nftables table inet ${table}`);

const HOOK = { prerouting: 0, forward: 2, output: 3, postrouting: 4 } as const;
const NF_DROP = 0;
const NF_ACCEPT = 1;

/** Where the kernel enters a chain. A lower priority is earlier. */
interface Hook {
  readonly type: "filter" | "nat";
  readonly hook: keyof typeof HOOK;
  readonly priority: number;
  /** What happens to packets that no rule decides; the kernel's default is accept. */
  readonly policy?: "accept" | "drop";
}

/** Creates a chain, if it does not exist. Without a hook other chains jump to it. */
export const newChain = (table: string, chain: string, hook?: Hook): NetlinkRequest =>
  request(
    "newChain",
    NLM_F_CREATE,
    [
      [1, text(table)],
      [3, text(chain)],
      ...(hook === undefined
        ? []
        : [
            [
              4,
              [
                [1, be32(HOOK[hook.hook])],
                [2, be32(hook.priority)],
              ],
            ] as const,
            ...(hook.policy === undefined ? [] : [[5, be32(hook.policy === "drop" ? NF_DROP : NF_ACCEPT)] as const]),
            [7, text(hook.type)] as const,
          ]),
    ],
    `create the nftables chain ${chain} of the table inet ${table}`,
  );

/** Deletes a chain without rules. The kernel refuses one that others jump to with `EBUSY`, and an absent one with `ENOENT`. */
export const deleteChain = (table: string, chain: string): NetlinkRequest =>
  request(
    "deleteChain",
    0,
    chainName(table, 1, chain, 3),
    `delete the nftables chain ${chain} of the table inet ${table}`,
  );

/** Whether a chain exists. Throws `NetlinkError` where the kernel has no nftables. */
export function hasChain(socket: NetlinkSocket, table: string, chain: string): boolean {
  const what = `read the nftables chain ${chain} of the table inet ${table}`;
  const reading = request("getChain", 0, chainName(table, 1, chain, 3), what);
  return unlessCode(["ENOENT"], () => socket.request(reading)) !== undefined;
}

/**
 * The generation of the rules of this network namespace. Every change of nftables by any program makes another one, so the same one means
 * that no table, chain, rule or map has changed. Throws `NetlinkError` as `hasChain`.
 */
export function readGeneration(socket: NetlinkSocket): number | undefined {
  const reading = request("getGeneration", 0, [], "read the generation of the nftables rules");
  const [answer] = socket.request(reading);
  return answer && readBe32(attributesByType(answer.payload.subarray(4)).get(1));
}

/** A chain of any table. */
export interface NftChain {
  readonly family: "ip" | "ip6" | "inet";
  readonly table: string;
  readonly chain: string;
  /** What happens to forwarded packets that no rule decides; undefined if forwarded packets do not enter it by themselves. */
  readonly forwardPolicy: "accept" | "drop" | undefined;
}

/**
 * The chains of all tables of the families ip, ip6 and inet, those of `iptables-nft` too. Throws `NetlinkError`: `EPERM`
 * without being root, `EINVAL` where the kernel has no nftables.
 */
export function listChains(socket: NetlinkSocket): readonly NftChain[] {
  const listing = { ...request("getChain", 0, [], "list the nftables chains"), body: nfgen(NFPROTO_UNSPEC) };
  return socket.dump(listing).flatMap(({ payload }) => {
    const family = FAMILY_NAMES[payload[0] ?? NFPROTO_UNSPEC];
    if (family === undefined) return [];
    const parts = attributesByType(payload.subarray(4));
    const isForward = readBe32(attributesByType(parts.get(4)).get(1)) === HOOK.forward;
    const policy = readBe32(parts.get(5)) === NF_DROP ? "drop" : "accept";
    const forwardPolicy = isForward ? policy : undefined;
    return [{ family, table: readText(parts.get(1)), chain: readText(parts.get(3)), forwardPolicy }];
  });
}

/** The rules of all chains of a table, in their order. Throws `NetlinkError` as `listChains`; none if there is no such table. */
export function listRules(
  socket: NetlinkSocket,
  { family, table }: Pick<NftChain, "family" | "table">,
): readonly (FilterRule & { readonly chain: string })[] {
  return dumpRules(socket, { family, table }).map((parts) => ({
    chain: readText(parts.get(2)),
    ...decodeRule(parts.get(4)),
  }));
}

/** How many rules each chain of a table of the family inet has. A chain without rules is missing in it, as is one that does not exist. */
export function countRules(socket: NetlinkSocket, table: string): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const parts of dumpRules(socket, { family: "inet", table })) {
    const chain = readText(parts.get(2));
    counts.set(chain, (counts.get(chain) ?? 0) + 1);
  }
  return counts;
}

/** The attributes of each rule. */
function dumpRules(
  socket: NetlinkSocket,
  { family, table }: Pick<NftChain, "family" | "table">,
): readonly ReturnType<typeof attributesByType>[] {
  const what = `list the rules of the nftables table ${family} ${table}`;
  const listing = { ...request("getRule", 0, [[1, text(table)]], what), body: nfgen(FAMILY_NUMBERS[family]) };
  return socket.dump(listing).map(({ payload }) => attributesByType(payload.subarray(4)));
}

const chainName = (table: string, tableType: number, chain: string, chainType: number): readonly Attribute[] => [
  [tableType, text(table)],
  [chainType, text(chain)],
];

/** Deletes all rules of a chain. */
export const flushChain = (table: string, chain: string): NetlinkRequest =>
  request("deleteRule", 0, chainName(table, 1, chain, 2), `delete the rules of the nftables chain ${chain}`);

/** Appends a rule to a chain. */
export const newRule = (table: string, chain: string, expressions: readonly NftExpression[]): NetlinkRequest =>
  request(
    "newRule",
    NLM_F_CREATE | NLM_F_APPEND,
    [...chainName(table, 1, chain, 2), [4, expressions]],
    `add a rule to the nftables chain ${chain} of the table inet ${table}`,
  );

/** Types that `nft list` shows keys and data by. */
const DATATYPE = { ipv4_addr: 7, ipv6_addr: 8, inet_proto: 12, inet_service: 13 } as const;
const DATATYPE_BYTES = { ipv4_addr: 4, ipv6_addr: 16, inet_proto: 4, inet_service: 4 } as const;
/** The parts of a key or of data, each padded to four bytes. */
export type NftConcatenation = readonly (keyof typeof DATATYPE)[];
const NFT_SET_MAP = 0x8;
const BITS_PER_TYPE = 6;

const datatypeOf = (parts: NftConcatenation) =>
  parts.reduce((type, part) => (type << BITS_PER_TYPE) | DATATYPE[part], 0);
const bytesOf = (parts: NftConcatenation) => parts.reduce((sum, part) => sum + DATATYPE_BYTES[part], 0);

interface MapInput {
  readonly table: string;
  readonly map: string;
  readonly key: NftConcatenation;
  readonly data: NftConcatenation;
  /** A number that no other map of the same change has. */
  readonly id: number;
}

/** Creates a map, if it does not exist. */
export const newMap = ({ table, map, key, data, id }: MapInput): NetlinkRequest =>
  request(
    "newSet",
    NLM_F_CREATE,
    [
      [1, text(table)],
      [2, text(map)],
      [3, be32(NFT_SET_MAP)],
      [4, be32(datatypeOf(key))],
      [5, be32(bytesOf(key))],
      [6, be32(datatypeOf(data))],
      [7, be32(bytesOf(data))],
      [10, be32(id)],
    ],
    `create the nftables map ${map} of the table inet ${table}`,
  );

/** An entry of a map: the bytes of its key and of its data. */
export interface MapEntry {
  readonly map: string;
  readonly key: Uint8Array;
  readonly data: Uint8Array;
  /** A comment that `nft list` shows. */
  readonly comment: string;
  /** What the entry is, for errors. */
  readonly what: string;
}

const elementOf = (table: string, map: string, content: readonly Attribute[]): readonly Attribute[] => [
  [1, text(table)],
  [2, text(map)],
  [3, [[1, content]]],
];

/** Bytes of a comment that fit into the 256 of an element, with its own header and null byte. */
const MAX_COMMENT_BYTES = 250;

/** A type, a length, and the text with its null byte, as `nft` writes comments. */
function commentBytes(comment: string): Uint8Array {
  const bytes = text(comment.slice(0, MAX_COMMENT_BYTES));
  return concat(Uint8Array.of(0, bytes.length), bytes);
}

/** What an error about the addition of an entry has as its `what`. */
export const addingWords = (what: string, map: string): string => `add ${what} to the nftables map ${map}`;

/** Adds an entry. The same one again is success; refused with `EBUSY` or `EEXIST` if the key maps to other data, with `ENOENT` without the map. */
const addEntry = (table: string, { map, key, data, comment, what }: MapEntry): NetlinkRequest =>
  request(
    "newSetElement",
    NLM_F_CREATE,
    elementOf(table, map, [
      [1, [[1, key]]],
      [2, [[1, data]]],
      [6, commentBytes(comment)],
    ]),
    addingWords(what, map),
  );

/** As many as surely fit into one datagram, and its acknowledgements into the socket's buffer. */
const ENTRIES_AT_ONCE = 256;

const chunksOf = <T>(items: readonly T[]): readonly (readonly T[])[] =>
  Array.from({ length: Math.ceil(items.length / ENTRIES_AT_ONCE) }, (_, index) =>
    items.slice(index * ENTRIES_AT_ONCE, (index + 1) * ENTRIES_AT_ONCE),
  );

/** Adds entries, 256 at a time. Throws the refusal of one. */
export function addEntries(socket: NetlinkSocket, table: string, entries: readonly MapEntry[]): void {
  for (const chunk of chunksOf(entries))
    change(
      socket,
      chunk.map((entry) => addEntry(table, entry)),
    );
}

type EntryKey = Pick<MapEntry, "map" | "key" | "what">;

const removal = (table: string, { map, key, what }: EntryKey) =>
  request(
    "deleteSetElement",
    0,
    elementOf(table, map, [[1, [[1, key]]]]),
    `remove ${what} from the nftables map ${map}`,
  );

/** Removes the entries of keys. An absent one is success, as is an absent map or table. */
export function removeEntries(socket: NetlinkSocket, table: string, keys: readonly EntryKey[]): void {
  for (const chunk of chunksOf(keys)) {
    const removeAll = (some: readonly EntryKey[]) =>
      change(
        socket,
        some.map((key) => removal(table, key)),
      );
    const isDone = unlessCode(["ENOENT"], () => {
      removeAll(chunk);
      return true;
    });
    // One of them is absent, and the kernel has removed none.
    if (isDone === undefined) for (const key of chunk) unlessCode(["ENOENT"], () => removeAll([key]));
  }
}

/** The entries of a map, keys and data alone; none if there is no such map. */
export function listEntries(
  socket: NetlinkSocket,
  table: string,
  map: string,
): readonly Pick<MapEntry, "key" | "data">[] {
  const name = [[1, text(table)] as const, [2, text(map)] as const];
  const listing = request("getSetElement", 0, name, `list the nftables map ${map} of the table inet ${table}`);
  const messages = unlessCode(["ENOENT"], () => socket.dump(listing)) ?? [];
  return messages.flatMap(({ payload }) => {
    const elements = decodeAttributes(attributesByType(payload.subarray(4)).get(3) ?? new Uint8Array());
    return elements.map(([, element]) => {
      const parts = attributesByType(element);
      const bytesIn = (type: number) => attributesByType(parts.get(type)).get(1) ?? new Uint8Array();
      return { key: bytesIn(1), data: bytesIn(2) };
    });
  });
}
