import type { FilterRule, RuleCondition, RuleVerdict } from "../../host/netlink/nft-rules.ts";

/** The rules that `iptables -S` prints, by their chain. */
export function parseRules(output: string): ReadonlyMap<string, readonly FilterRule[]> {
  const lines = output.split("\n").map((line) => line.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? []);
  const names = lines.flatMap(([option, chain]) => (option === "-N" || option === "-P" ? (chain ?? []) : []));
  const chains = new Set<string>(names);
  const rules = lines.flatMap(([option, chain = "", ...words]) =>
    option === "-A" ? [{ chain, ...ruleOf(words, chains) }] : [],
  );
  return Map.groupBy(rules, ({ chain }) => chain);
}

/** What follows the target are options of the target. */
function ruleOf(words: readonly string[], chains: ReadonlySet<string>): FilterRule {
  const end = words.findIndex((word) => word === "-j" || word === "-g");
  const target = end < 0 ? "" : (words[end + 1] ?? "");
  return {
    conditions: conditionsOf(end < 0 ? words : words.slice(0, end)),
    verdict: words[end] === "-g" ? { kind: "goto", chain: target } : verdictOf(target, chains),
  };
}

const VERDICTS: Readonly<Record<string, RuleVerdict>> = {
  ACCEPT: { kind: "accept" },
  DROP: { kind: "drop" },
  REJECT: { kind: "drop" },
  RETURN: { kind: "return" },
};

const verdictOf = (target: string, chains: ReadonlySet<string>): RuleVerdict | undefined =>
  VERDICTS[target] ?? (chains.has(target) ? { kind: "jump", chain: target } : undefined);

/** `-i NAME` and `-o NAME`, where `NAME+` is a beginning, after `!` negated. A comment is no condition. */
function conditionsOf(words: readonly string[]): readonly RuleCondition[] {
  const text = words.join(" ").replace(/-m comment --comment ("(?:[^"\\]|\\.)*"|\S+)/, "");
  const conditions: RuleCondition[] = [];
  const rest = text.replace(/(! )?-([io]) (\S+)/g, (_, not: string | undefined, option: string, name: string) => {
    const isPrefix = name.endsWith("+");
    conditions.push({
      kind: "link",
      side: option === "i" ? "in" : "out",
      name: isPrefix ? name.slice(0, -1) : name,
      isPrefix,
      isNegated: not !== undefined,
    });
    return "";
  });
  return rest.trim() === "" ? conditions : [...conditions, { kind: "other" }];
}
