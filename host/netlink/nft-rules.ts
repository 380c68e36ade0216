// Reads the rules of nftables that others have made, as far as they decide by the links of a packet. Everything else that
// a rule compares is an `other` condition, which nothing is known of.

import { attributesByType, decodeAttributes, readBe32, readText } from "./codec.ts";

/** What must hold for a rule to act. Names of links compare whole, or by their beginning where `isPrefix`. */
export type RuleCondition =
  | {
      readonly kind: "link";
      /** `in`: the link that the packet came from. `out`: the one that it leaves by. */
      readonly side: "in" | "out";
      readonly name: string;
      readonly isPrefix: boolean;
      readonly isNegated: boolean;
    }
  | { readonly kind: "other" };

export type RuleVerdict =
  | { readonly kind: "accept" | "drop" | "return" }
  | { readonly kind: "jump" | "goto"; readonly chain: string };

/** A rule of a packet filter. */
export interface FilterRule {
  /** All must hold. */
  readonly conditions: readonly RuleCondition[];
  /** A refusal (`reject`) is `drop`. Undefined for rules that only count, log or mark, and for what is not read. */
  readonly verdict: RuleVerdict | undefined;
}

type Parts = ReadonlyMap<number, Uint8Array>;

const OTHER: RuleCondition = { kind: "other" };
const SIDES: Readonly<Record<number, "in" | "out">> = { 6: "in", 7: "out" };
/** Expressions that neither compare nor decide. */
const WITHOUT_EFFECT = new Set(["counter", "log", "last"]);

/** Decodes the list of expressions of one rule, those of `iptables-nft` too. Throws `EBADMSG` if a length does not fit. */
export function decodeRule(expressions: Uint8Array | undefined): FilterRule {
  const sides = new Map<number, "in" | "out">();
  const conditions: RuleCondition[] = [];
  let verdict: RuleVerdict | undefined;
  for (const [, element] of decodeAttributes(expressions ?? new Uint8Array())) {
    const outer = attributesByType(element);
    const name = readText(outer.get(1));
    const parts = attributesByType(outer.get(2));
    const register = readBe32(parts.get(1)) ?? -1;
    if (WITHOUT_EFFECT.has(name)) continue;
    if (name === "meta") {
      const side = SIDES[readBe32(parts.get(2)) ?? -1];
      if (side === undefined) sides.delete(register);
      else sides.set(register, side);
    } else if (name === "cmp") conditions.push(conditionOf(sides.get(register), parts));
    else if (name === "immediate") verdict ??= verdictOf(parts);
    else if (name === "reject") verdict ??= { kind: "drop" };
    // Targets and matches of x_tables, which iptables-nft uses where nftables has no expression.
    else if (name === "target") verdict ??= readText(parts.get(1)) === "REJECT" ? { kind: "drop" } : undefined;
    else if (name !== "match" || readText(parts.get(1)) !== "comment") conditions.push(OTHER);
  }
  return { conditions, verdict };
}

const EQUALS = 0;
const DIFFERS = 1;

/** A name that is compared whole ends with its null byte. */
function conditionOf(side: "in" | "out" | undefined, parts: Parts): RuleCondition {
  const operator = readBe32(parts.get(2));
  const bytes = attributesByType(parts.get(3)).get(1) ?? new Uint8Array();
  if (side === undefined || (operator !== EQUALS && operator !== DIFFERS)) return OTHER;
  return {
    kind: "link",
    side,
    name: readText(bytes),
    isPrefix: !bytes.includes(0),
    isNegated: operator === DIFFERS,
  };
}

const NF_DROP = 0;
const NF_ACCEPT = 1;
const NFT_JUMP = -3;
const NFT_GOTO = -4;
const NFT_RETURN = -5;

/** Undefined for a constant that is loaded into a register. */
function verdictOf(parts: Parts): RuleVerdict | undefined {
  const verdict = attributesByType(attributesByType(parts.get(2)).get(2));
  const code = readBe32(verdict.get(1));
  const chain = readText(verdict.get(2));
  // Negative codes, as a number without its sign.
  switch (code === undefined ? undefined : code | 0) {
    case NF_DROP:
      return { kind: "drop" };
    case NF_ACCEPT:
      return { kind: "accept" };
    case NFT_RETURN:
      return { kind: "return" };
    case NFT_JUMP:
      return { kind: "jump", chain };
    case NFT_GOTO:
      return { kind: "goto", chain };
    default:
      return undefined;
  }
}
