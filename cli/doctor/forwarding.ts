import type { FilterRule, RuleCondition } from "../../host/netlink/nft-rules.ts";

/** A chain that forwarded packets enter, and the rules of all chains that it may jump to. */
export interface ForwardChain {
  /** `iptables` and `ip6tables` are the tables of x_tables, which nftables does not list. */
  readonly family: "ip" | "ip6" | "inet" | "iptables" | "ip6tables";
  readonly table: string;
  readonly chain: string;
  /** What happens to packets that no rule decides. */
  readonly policy: "accept" | "drop";
  readonly rules: ReadonlyMap<string, readonly FilterRule[]>;
}

/** The link by which a packet comes or leaves; nothing else is known of it. The other link is another one. */
export interface ForwardedPacket {
  readonly side: "in" | "out";
  readonly link: string;
}

/**
 * Whether a chain drops such packets: by a rule, or by its policy. A rule that acts on some of them, such as those of one
 * port or of established connections, does not count, whatever it does.
 */
export function dropsPackets({ chain, policy, rules }: ForwardChain, packet: ForwardedPacket): boolean {
  return (decide(rules, chain, packet) ?? policy) === "drop";
}

/** The first verdict on all such packets; undefined if the chain returns. The kernel refuses chains that jump in a circle. */
function decide(
  rules: ForwardChain["rules"],
  chain: string,
  packet: ForwardedPacket,
): ForwardChain["policy"] | undefined {
  for (const { conditions, verdict } of rules.get(chain) ?? []) {
    if (verdict === undefined || !conditions.every((condition) => alwaysHolds(condition, packet))) continue;
    if (verdict.kind === "return") return undefined;
    if (!("chain" in verdict)) return verdict.kind;
    const decision = decide(rules, verdict.chain, packet);
    if (decision !== undefined || verdict.kind === "goto") return decision;
  }
  return undefined;
}

function alwaysHolds(condition: RuleCondition, { side, link }: ForwardedPacket): boolean {
  if (condition.kind === "other") return false;
  const { name, isPrefix, isNegated } = condition;
  // Of the other link is known only that it is not this one.
  if (condition.side !== side) return isNegated ? !isPrefix && name === link : isPrefix && name === "";
  return (isPrefix ? link.startsWith(name) : link === name) !== isNegated;
}
