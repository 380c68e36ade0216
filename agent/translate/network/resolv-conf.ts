import type { ResolvConf } from "../node-facts.ts";

/**
 * Parses resolv.conf(5): `nameserver` and `options` lines accumulate, the last `search` line wins. The root domain `.`,
 * which systemd-resolved writes when it has no search domain, is dropped: resolvers try it anyway.
 */
export function parseResolvConf(text: string): ResolvConf {
  const lines = text.split("\n").map((line) =>
    line
      .replace(/[#;].*/s, "")
      .trim()
      .split(/\s+/),
  );
  const last = (key: string) => lines.findLast(([keyword]) => keyword === key)?.slice(1) ?? [];
  return {
    nameservers: lines.flatMap(([key, value]) => (key === "nameserver" && value !== undefined ? [value] : [])),
    searches: last("search").flatMap((search) => (search === "." ? [] : [search.replace(/\.$/, "")])),
    options: mergeOptions(lines.flatMap(([key, ...values]) => (key === "options" ? values : []))),
  };
}

/** When an option occurs twice, the last value wins. */
export function mergeOptions(options: readonly string[]): readonly string[] {
  const byName = new Map<string, string>();
  for (const option of options) byName.set(option.split(":")[0] ?? option, option);
  return [...byName.values()];
}
