import { expect, test } from "bun:test";
import { be32, encodeAttributes, text } from "./codec.ts";
import {
  differs,
  drop,
  equals,
  jump,
  leave,
  loadConstant,
  loadMeta,
  loadSource,
  type NftExpression,
} from "./nft-expressions.ts";
import { decodeRule, type FilterRule } from "./nft-rules.ts";

const name = (link: string, length = 16) => Uint8Array.from({ length }, (_, index) => link.charCodeAt(index) || 0);
const named = (expression: string, content: readonly NftExpression[] = []): NftExpression => [
  1,
  [
    [1, text(expression)],
    [2, content],
  ],
];
const out = { kind: "link", side: "out", name: "berth0", isPrefix: false, isNegated: false } as const;
const other = { kind: "other" } as const;

const rows: readonly (readonly [title: string, expressions: readonly NftExpression[], rule: FilterRule])[] = [
  [
    "nft compares the whole name of a link, with null bytes behind it",
    [loadMeta("oifname", 1), equals(1, name("berth0")), drop],
    { conditions: [out], verdict: { kind: "drop" } },
  ],
  [
    "iptables-nft compares it with one null byte, and counts",
    [loadMeta("oifname", 1), equals(1, text("berth0")), named("counter"), leave],
    { conditions: [out], verdict: { kind: "return" } },
  ],
  [
    "a name without null byte is the beginning of one",
    [loadMeta("oifname", 1), differs(1, name("br", 2)), jump("more")],
    {
      conditions: [{ ...out, name: "br", isPrefix: true, isNegated: true }],
      verdict: { kind: "jump", chain: "more" },
    },
  ],
  [
    "another load into the register replaces the name",
    [loadMeta("oifname", 1), loadMeta("l4proto", 1), equals(1, Uint8Array.of(6)), drop],
    { conditions: [other], verdict: { kind: "drop" } },
  ],
  [
    "an address is a condition of which nothing is known",
    [loadSource(4, 1), equals(1, Uint8Array.of(10, 0, 0, 1)), drop],
    { conditions: [other, other], verdict: { kind: "drop" } },
  ],
  ["so is an expression that is not known", [named("quota"), drop], { conditions: [other], verdict: { kind: "drop" } }],
  ["reject drops", [named("reject")], { conditions: [], verdict: { kind: "drop" } }],
  [
    "so does REJECT of x_tables",
    [named("target", [[1, text("REJECT")]])],
    { conditions: [], verdict: { kind: "drop" } },
  ],
  ["LOG of x_tables decides nothing", [named("target", [[1, text("LOG")]])], { conditions: [], verdict: undefined }],
  [
    "a comment is no condition",
    [named("match", [[1, text("comment")]]), drop],
    { conditions: [], verdict: { kind: "drop" } },
  ],
  [
    "another match is one",
    [named("match", [[1, text("conntrack")]]), drop],
    { conditions: [other], verdict: { kind: "drop" } },
  ],
  ["a constant in a register is no verdict", [loadConstant(be32(1), 1)], { conditions: [], verdict: undefined }],
];

test.each(rows)("%s", (_, expressions, rule) => {
  expect(decodeRule(encodeAttributes(expressions))).toEqual(rule);
});

test("a rule without expressions says nothing", () => {
  expect(decodeRule(undefined)).toEqual({ conditions: [], verdict: undefined });
});
