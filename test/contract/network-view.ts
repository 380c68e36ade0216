// Reads a network namespace as text that two runs have in common.
import { execa } from "execa";

/** What differs between any two runs: names and addresses that the kernel chooses, counters, times, indexes. */
export const normalise = (text: string) =>
  text
    .replaceAll(/^#.*\n?/gm, "")
    .replaceAll(/veth[0-9a-f]{8}/g, "vethN")
    .replaceAll(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, (mac) =>
      mac === "0a:58:0a:de:03:05" || /^(00:|ff:)+(00|ff)$/.test(mac) ? mac : "MAC",
    )
    .replaceAll(/fe80::[0-9a-f:]+/g, "fe80::N")
    .replaceAll(/\[\d+:\d+\]/g, "[0:0]")
    .replaceAll(/^\d+: /gm, "N: ")
    .replaceAll(
      /@if\d+|@vethN|link-netnsid \d+|link-netns \S+|tentative|valid_lft.*|qlen \d+|state \w+|NO-CARRIER,|,LOWER_UP|linkdown */g,
      "",
    )
    .replaceAll(/ +$/gm, "");

const VIEWS: readonly (readonly string[])[] = [
  ["ip", "addr"],
  ["ip", "route", "show", "table", "all"],
  ["ip", "-6", "route", "show", "table", "all"],
  ["iptables-save"],
  ["ip6tables-save"],
];

/** Interfaces, addresses, routes and rules of the network namespace that `enter` enters, as its users see them. */
export async function readNetworkView(...enter: readonly string[]): Promise<readonly string[]> {
  const texts: string[] = [];
  for (const argv of VIEWS) {
    const [program = "", ...args] = [...enter, ...argv];
    const { stdout } = await execa(program, args);
    texts.push(argv.join(" "), ...normalise(stdout).split("\n").filter(isStable));
  }
  return texts;
}

/** The routes of link-local addresses come and go while the kernel checks them for duplicates. */
const isStable = (line: string) => !/fe80|ff00::\/8|^multicast/.test(line);
