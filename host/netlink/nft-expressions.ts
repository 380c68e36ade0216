// Expressions of nftables, from which rules are made: each loads a value into a register, compares one, or acts. All
// numbers of nfnetlink are in network byte order, and so are addresses and ports in registers.

import { type Attribute, be32, text, u8, u32 } from "./codec.ts";

/** A register of four bytes, 0 to 15. A longer value fills those that follow. */
export type Register = number;
const NFT_REG32_00 = 8;
const register = (number: Register) => be32(NFT_REG32_00 + number);

/** An expression of a rule. */
export type NftExpression = Attribute;
const NFTA_LIST_ELEM = 1;
const NFTA_DATA_VALUE = 1;
const NFTA_DATA_VERDICT = 2;
const NFTA_VERDICT_CODE = 1;
const NFTA_VERDICT_CHAIN = 2;
/** Verdicts write to this register. */
const NFT_REG_VERDICT = 0;

const expression = (name: string, content: readonly Attribute[]): NftExpression => [
  NFTA_LIST_ELEM,
  [
    [1, text(name)],
    [2, content],
  ],
];

const value = (bytes: Uint8Array): readonly Attribute[] => [[NFTA_DATA_VALUE, bytes]];

const NFT_META = { iif: 4, oifname: 7, nfproto: 15, l4proto: 16 } as const;

/** Loads a property of the packet: the index of its incoming link, the name of its outgoing one (16 bytes), its protocols (1 byte). */
export const loadMeta = (key: keyof typeof NFT_META, into: Register): NftExpression =>
  expression("meta", [
    [1, register(into)],
    [2, be32(NFT_META[key])],
  ]);

/** Loads bytes of the packet; `offset` counts from the start of the header. */
function loadPayload(base: 1 | 2, offset: number, length: number, into: Register): NftExpression {
  return expression("payload", [
    [1, register(into)],
    [2, be32(base)],
    [3, be32(offset)],
    [4, be32(length)],
  ]);
}

/** The family of the packets: only these have an address of that length. */
export type NftFamily = 4 | 6;
const SOURCE = { 4: { offset: 12, length: 4 }, 6: { offset: 8, length: 16 } } as const;

/** Loads the source address. */
export const loadSource = (family: NftFamily, into: Register): NftExpression =>
  loadPayload(1, SOURCE[family].offset, SOURCE[family].length, into);

/** Loads the destination address, which follows the source. */
export const loadDestination = (family: NftFamily, into: Register): NftExpression =>
  loadPayload(1, SOURCE[family].offset + SOURCE[family].length, SOURCE[family].length, into);

/** Loads the destination port, which TCP, UDP and SCTP have at the same place. */
export const loadDestinationPort = (into: Register): NftExpression => loadPayload(2, 2, 2, into);

const NFT_CT_PROTO_DST = 12;
const NFT_CT_DST_IP = { 4: 20, 6: 22 } as const;
/** IP_CT_DIR_ORIGINAL. */
const ORIGINAL = 0;

const loadOriginal = (key: number, into: Register) =>
  expression("ct", [
    [1, register(into)],
    [2, be32(key)],
    [3, u8(ORIGINAL)],
  ]);

/** Loads the address to which the client has connected, before any translation. */
export const loadOriginalDestination = (family: NftFamily, into: Register): NftExpression =>
  loadOriginal(NFT_CT_DST_IP[family], into);

/** Loads the port to which the client has connected, before any translation. */
export const loadOriginalDestinationPort = (into: Register): NftExpression => loadOriginal(NFT_CT_PROTO_DST, into);

const NFT_FIB_RESULT_ADDRTYPE = 3;
const NFTA_FIB_F_DADDR = 2;
/** The type of an address of this machine: four bytes in the byte order of the machine. */
export const RTN_LOCAL = u32(2);

/** Loads the type of the destination address, as the routes have it. */
export const loadDestinationType = (into: Register): NftExpression =>
  expression("fib", [
    [1, register(into)],
    [2, be32(NFT_FIB_RESULT_ADDRTYPE)],
    [3, be32(NFTA_FIB_F_DADDR)],
  ]);

/** Loads a constant. */
export const loadConstant = (bytes: Uint8Array, into: Register): NftExpression =>
  expression("immediate", [
    [1, register(into)],
    [2, value(bytes)],
  ]);

/** Keeps the bits of a mask. */
export const mask = (from: Register, bytes: Uint8Array): NftExpression =>
  expression("bitwise", [
    [1, register(from)],
    [2, register(from)],
    [3, be32(bytes.length)],
    [4, value(bytes)],
    [5, value(new Uint8Array(bytes.length))],
  ]);

const compare = (operator: number, from: Register, bytes: Uint8Array) =>
  expression("cmp", [
    [1, register(from)],
    [2, be32(operator)],
    [3, value(bytes)],
  ]);

/** Ends the rule unless the register has this value. */
export const equals = (from: Register, bytes: Uint8Array): NftExpression => compare(0, from, bytes);
/** Ends the rule if the register has this value. */
export const differs = (from: Register, bytes: Uint8Array): NftExpression => compare(1, from, bytes);

/** Looks a key up in a map, and loads what it maps to; ends the rule if the key is not there. */
export const lookUp = (map: string, key: Register, into: Register): NftExpression =>
  expression("lookup", [
    [1, text(map)],
    [2, register(key)],
    [3, register(into)],
  ]);

const NFPROTO = { 4: 2, 6: 10 } as const;
/** The value of `nfproto`. */
export const nfproto = (family: NftFamily): Uint8Array => Uint8Array.of(NFPROTO[family]);
const NFT_NAT_DNAT = 1;

/** Sends the connection to the address and the port of these registers. */
export const dnat = (family: NftFamily, address: Register, port: Register): NftExpression =>
  expression("nat", [
    [1, be32(NFT_NAT_DNAT)],
    [2, be32(NFPROTO[family])],
    [3, register(address)],
    [5, register(port)],
  ]);

/** Gives the connection the address of the outgoing link as its source. */
export const masquerade: NftExpression = expression("masq", []);

const verdict = (code: number, chain?: string) =>
  expression("immediate", [
    [1, be32(NFT_REG_VERDICT)],
    [
      2,
      [
        [
          NFTA_DATA_VERDICT,
          [
            [NFTA_VERDICT_CODE, be32(code)],
            ...(chain === undefined ? [] : [[NFTA_VERDICT_CHAIN, text(chain)] as const]),
          ],
        ],
      ],
    ],
  ]);

const NF_DROP = 0;
const NFT_JUMP = -3;
const NFT_RETURN = -5;
export const drop: NftExpression = verdict(NF_DROP);
/** Leaves the chain. */
export const leave: NftExpression = verdict(NFT_RETURN);
export const jump = (chain: string): NftExpression => verdict(NFT_JUMP, chain);
