import { expect, test } from "bun:test";
import type { ResolvConf } from "../node-facts.ts";
import { parseResolvConf } from "./resolv-conf.ts";

const nothing: ResolvConf = { nameservers: [], searches: [], options: [] };

const files: readonly [sentence: string, text: string, result: ResolvConf][] = [
  ["an empty file sets nothing", "", nothing],
  [
    "nameservers accumulate in order",
    "nameserver 192.0.2.1\nnameserver 192.0.2.2\n",
    { ...nothing, nameservers: ["192.0.2.1", "192.0.2.2"] },
  ],
  [
    "the last search line wins",
    "search a.test b.test\nsearch c.test d.test\n",
    { ...nothing, searches: ["c.test", "d.test"] },
  ],
  [
    "options accumulate, and the last value of an option wins",
    "options ndots:1 rotate\noptions ndots:2 edns0\n",
    { ...nothing, options: ["ndots:2", "rotate", "edns0"] },
  ],
  [
    "both kinds of comments, tabs and spaces are skipped",
    "# one\n; two\n  nameserver\t192.0.2.1 # three\noptions rotate ; four\n",
    { nameservers: ["192.0.2.1"], searches: [], options: ["rotate"] },
  ],
  [
    "a search domain loses its final dot, and the root domain is dropped",
    "search a.test. .\n",
    { ...nothing, searches: ["a.test"] },
  ],
  ["a nameserver line without an address is skipped", "nameserver\n", nothing],
  ["unknown keywords are skipped", "domain a.test\nsortlist 192.0.2.0\n", nothing],
  [
    "CRLF line ends are accepted",
    "nameserver 192.0.2.1\r\nsearch a.test\r\n",
    { ...nothing, nameservers: ["192.0.2.1"], searches: ["a.test"] },
  ],
];
for (const [sentence, text, result] of files)
  test(`resolv.conf: ${sentence}`, () => {
    expect(parseResolvConf(text)).toEqual(result);
  });
