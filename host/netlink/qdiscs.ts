// Queueing disciplines over rtnetlink(7): a token bucket that limits a link, and the way of incoming packets to an ifb,
// on which they can be limited too.

import { be32, concat, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, text, u32, u64 } from "./codec.ts";
import type { Link } from "./links.ts";
import type { NetlinkSocket } from "./socket.ts";

const RTM_NEWQDISC = 36;
const RTM_NEWTFILTER = 44;
const TCA_KIND = 1;
const TCA_OPTIONS = 2;
const TC_H_ROOT = 0xffffffff;
const TC_H_INGRESS = 0xfffffff1;
const INGRESS_HANDLE = 0xffff0000;
const ROOT_HANDLE = 0x10000;
const TC_LINKLAYER_ETHERNET = 1;
const TC_ACT_STOLEN = 4;
const TCA_EGRESS_REDIR = 1;
const TC_U32_TERMINAL = 1;
/** ETH_P_ALL in network byte order. */
const ALL_PROTOCOLS = 0x0300;

/** struct tcmsg. */
const tcmsg = (index: number, handle: number, parent: number, info = 0) => u32(0, index, handle, parent, info);

interface TokenBucket {
  readonly bytesPerSecond: number;
  readonly burstBytes: number;
  /** How long a packet may wait for its turn. */
  readonly latencyMs: number;
}

/** Limits what leaves by a link (tbf). Replaces an earlier limit. */
export function setTokenBucket(
  socket: NetlinkSocket,
  link: Pick<Link, "index" | "name">,
  { bytesPerSecond, burstBytes, latencyMs }: TokenBucket,
): void {
  const MAX_U32 = 0xffffffff;
  const rate = Math.min(bytesPerSecond, MAX_U32);
  const limit = Math.min(Math.ceil((bytesPerSecond * latencyMs) / 1000) + burstBytes, MAX_U32);
  // struct tc_tbf_qopt: two struct tc_ratespec, limit, buffer (given as TCA_TBF_BURST instead), mtu.
  const qopt = concat(Uint8Array.of(0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0), u32(rate, 0, 0, 0, limit, 0, 0));
  socket.request({
    type: RTM_NEWQDISC,
    flags: NLM_F_CREATE | NLM_F_REPLACE,
    body: tcmsg(link.index, ROOT_HANDLE, TC_H_ROOT),
    attributes: [
      [TCA_KIND, text("tbf")],
      [
        TCA_OPTIONS,
        [
          [1, qopt],
          [4, u64(bytesPerSecond)],
          [6, u32(Math.min(burstBytes, MAX_U32))],
        ],
      ],
    ],
    what: `limit what leaves by ${link.name} to ${bytesPerSecond} bytes a second`,
  });
}

/** Sends what comes in by a link to what leaves by another one, an ifb. Throws `EEXIST` if the link has an ingress qdisc. */
export function redirectIngress(
  socket: NetlinkSocket,
  link: Pick<Link, "index" | "name">,
  to: Pick<Link, "index" | "name">,
): void {
  const what = `redirect what comes in by ${link.name} to ${to.name}`;
  socket.request({
    type: RTM_NEWQDISC,
    flags: NLM_F_CREATE | NLM_F_EXCL,
    body: tcmsg(link.index, INGRESS_HANDLE, TC_H_INGRESS),
    attributes: [[TCA_KIND, text("ingress")]],
    what,
  });
  // struct tc_u32_sel with one key, which matches everything.
  const selector = concat(Uint8Array.of(TC_U32_TERMINAL, 0, 1, 0), u32(0, 0), be32(0), u32(0, 0, 0, 0));
  // struct tc_mirred: index, capab, action, refcnt, bindcnt, eaction, ifindex.
  const redirect = u32(0, 0, TC_ACT_STOLEN, 0, 0, TCA_EGRESS_REDIR, to.index);
  const action = [
    [1, text("mirred")],
    [2, [[2, redirect]]],
  ] as const;
  socket.request({
    type: RTM_NEWTFILTER,
    flags: NLM_F_CREATE | NLM_F_EXCL,
    body: tcmsg(link.index, 0, INGRESS_HANDLE, (1 << 16) | ALL_PROTOCOLS),
    attributes: [
      [TCA_KIND, text("u32")],
      [
        TCA_OPTIONS,
        [
          [5, selector],
          [7, [[1, action]]],
        ],
      ],
    ],
    what,
  });
}
