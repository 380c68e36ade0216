// Tracked connections over nfnetlink (conntrack).

import { type Attribute, attributesByType, be16, u8, u32 } from "./codec.ts";
import { unlessCode } from "./error.ts";
import type { NftFamily } from "./nft-expressions.ts";
import type { NetlinkRequest, NetlinkSocket } from "./socket.ts";

const NFNL_SUBSYS_CTNETLINK = 1;
const IPCTNL_MSG_CT_GET = 1;
const IPCTNL_MSG_CT_DELETE = 2;
const CTA_TUPLE_ORIG = 1;
const CTA_ID = 12;
const CTA_FILTER = 25;
const CTA_TUPLE_PROTO = 2;
const CTA_PROTO_NUM = 1;
const CTA_PROTO_DST_PORT = 3;
const CTA_FILTER_ORIG_FLAGS = 1;
/** The filter looks at the number of the protocol and at the destination port. */
const NUMBER_AND_DESTINATION_PORT = (1 << 3) | (1 << 5);
const FAMILY = { 4: 2, 6: 10 } as const;
const UDP = 17;

const request = (type: number, family: NftFamily, attributes: readonly Attribute[], what: string): NetlinkRequest => ({
  type: (NFNL_SUBSYS_CTNETLINK << 8) | type,
  flags: 0,
  body: Uint8Array.of(FAMILY[family], 0, 0, 0),
  attributes,
  what,
});

/**
 * Ends the tracking of connections by UDP to a port, as the client has addressed it. The next datagram of a client finds
 * its way by the rules of now; without this it would keep going where the first one went, for as long as the client sends.
 * A kernel without `nf_conntrack_netlink` cannot end them: it forgets one when no datagram has come for two minutes.
 * Throws `NetlinkError` for any other refusal.
 */
export function endUdpConnections(
  socket: Pick<NetlinkSocket, "dump" | "request">,
  family: NftFamily,
  port: number,
): void {
  const what = `end the connections to the port ${port}/udp`;
  const protocol: Attribute = [
    CTA_TUPLE_PROTO,
    [
      [CTA_PROTO_NUM, u8(UDP)],
      [CTA_PROTO_DST_PORT, be16(port)],
    ],
  ];
  const filter: readonly Attribute[] = [
    [CTA_TUPLE_ORIG, [protocol]],
    [CTA_FILTER, [[CTA_FILTER_ORIG_FLAGS, u32(NUMBER_AND_DESTINATION_PORT)]]],
  ];
  const dump = () => socket.dump(request(IPCTNL_MSG_CT_GET, family, filter, what));
  for (const { payload } of unlessCode(UNKNOWN_SUBSYSTEM, dump) ?? []) {
    const connection = attributesByType(payload.subarray(4));
    const [tuple, id] = [connection.get(CTA_TUPLE_ORIG), connection.get(CTA_ID)];
    if (tuple === undefined || id === undefined || !isUdpTo(port, tuple)) continue;
    const attributes = [[CTA_TUPLE_ORIG | NLA_F_NESTED, tuple] as const, [CTA_ID, id] as const];
    // It may have ended meanwhile.
    unlessCode(["ENOENT"], () => socket.request(request(IPCTNL_MSG_CT_DELETE, family, attributes, what)));
  }
}

/** The answers of nfnetlink to a request for a subsystem that the kernel does not have. */
const UNKNOWN_SUBSYSTEM: readonly string[] = ["EINVAL", "EOPNOTSUPP"];

/** Kernels before 5.8 ignore the filter, and show the connections of all protocols and ports. */
function isUdpTo(port: number, tuple: Uint8Array): boolean {
  const protocol = attributesByType(attributesByType(tuple).get(CTA_TUPLE_PROTO));
  const [high, low] = protocol.get(CTA_PROTO_DST_PORT) ?? [];
  return protocol.get(CTA_PROTO_NUM)?.[0] === UDP && high === port >> 8 && low === (port & 255);
}

/** The tuple is sent back as it was received, so the flag of its type is not added by the encoder. */
const NLA_F_NESTED = 0x8000;
