import type { PodBridge } from "../../cni/network-facts.ts";
import { joinWithAnd } from "../../proto/join-with-and.ts";
import { type Finding, type Judge, judged, okFinding, warningFinding } from "./finding.ts";
import type { FirewallFacts } from "./firewall-facts.ts";
import { dropsPackets, type ForwardChain, type ForwardedPacket } from "./forwarding.ts";

/**
 * Docker and ufw set the policy of FORWARD to DROP, and firewalld rejects at the end of its chain: both hit the packets of
 * pods. Nothing is said where pods have no bridge: networks such as Calico and Cilium add rules of their own. The bridge is that of
 * the network which an agent executes, if one does; the runtime knows only its delegate.
 */
export const judgeFirewall: Judge = (facts) => {
  const executed = "value" in facts.podNetwork ? facts.podNetwork.value.executed : undefined;
  const bridges = executed?.bridges ?? ("value" in facts.cni ? facts.cni.value.bridges : []);
  if (bridges.length === 0) return [];
  return judged(facts, "firewall", { check: "firewall", subject: "the firewall's chains" }, (firewall) => {
    const found = bridges.flatMap((bridge) => judgeBridge(bridge, firewall));
    if (found.length > 0) return found;
    const names = joinWithAnd(bridges.map(({ name }) => name));
    return [okFinding("firewall", `no chain drops all packets that come from ${names}, or that go there`)];
  });
};

function judgeBridge({ name, families }: PodBridge, { chains, unread }: FirewallFacts): readonly Finding[] {
  const concerns = (family: ForwardChain["family"]) =>
    family === "inet" || families.includes(family === "ip6" || family === "ip6tables" ? 6 : 4);
  return [
    ...chains.filter(({ family }) => concerns(family)).flatMap((chain) => judgeChain(chain, name)),
    ...unread
      .filter(concerns)
      .map((program) =>
        warningFinding(
          "firewall",
          `the kernel has a table filter of ${program}-legacy, and that program is not installed: whether it drops packets of ${name} was not checked`,
          `install ${program}-legacy (Debian's package iptables), and run berth doctor again`,
        ),
      ),
  ];
}

const EFFECTS = { in: "pods reach no other machine", out: "other machines reach no pod" } as const;
const WORDS = { in: "from", out: "to" } as const;

function judgeChain(chain: ForwardChain, bridge: string): readonly Finding[] {
  const sides = (["in", "out"] as const).filter((side) => dropsPackets(chain, { side, link: bridge }));
  if (sides.length === 0) return [];
  const owner = ownerOf(chain);
  const by = owner === "docker" ? " (Docker)" : owner === "ufw" ? " (ufw)" : "";
  const directions = sides.map((side) => WORDS[side]).join(" and ");
  return [
    warningFinding(
      "firewall",
      `the chain ${chain.chain} of the table ${tableWords(chain)}${by} drops what no rule accepts, and no rule accepts every packet ${directions} ${bridge}: unless rules for some of them do, ${joinWithAnd(sides.map((side) => EFFECTS[side]))}`,
      cureOf(chain, owner, { sides, bridge }),
    ),
  ];
}

const tableWords = ({ family, table }: ForwardChain) =>
  family === "iptables" || family === "ip6tables" ? `${table} of ${family}-legacy` : `${family} ${table}`;

/** The program that keeps the rules of a table. */
type Owner = "docker" | "ufw" | "firewalld";

/** Chains of Docker and ufw are in the table `filter` of iptables, beside those of the user. */
function ownerOf({ table, rules }: ForwardChain): Owner | undefined {
  if (table === "firewalld") return "firewalld";
  const targets = [...rules.values()].flat().map(({ verdict }) => (verdict?.kind === "jump" ? verdict.chain : ""));
  if (targets.includes("DOCKER-USER")) return "docker";
  return targets.some((target) => /^ufw6?-before-forward$/.test(target)) ? "ufw" : undefined;
}

interface DroppedPackets {
  readonly sides: readonly ForwardedPacket["side"][];
  readonly bridge: string;
}

/** The rule must be in the chain itself: one that accepts in another base chain does not keep this one from dropping. */
function cureOf(
  { family, table, chain }: ForwardChain,
  owner: Owner | undefined,
  { sides, bridge }: DroppedPackets,
): string {
  const all = (command: (side: "in" | "out") => string) => sides.map(command).join(" && ");
  if (owner === "ufw") return all((side) => `ufw route allow ${side} on ${bridge}`);
  if (owner === "firewalld") return firewalldCure(bridge, sides.includes("out"));
  const isOfIptables = table === "filter" && chain === "FORWARD" && family !== "inet";
  if (isOfIptables) {
    const program = {
      ip: "iptables-nft",
      ip6: "ip6tables-nft",
      iptables: "iptables-legacy",
      ip6tables: "ip6tables-legacy",
    };
    const target = owner === "docker" ? "DOCKER-USER" : chain;
    return all((side) => `${program[family]} -I ${target} ${side === "in" ? "-i" : "-o"} ${bridge} -j ACCEPT`);
  }
  return all(
    (side) => `nft insert rule ${family} ${table} ${chain} ${side === "in" ? "iifname" : "oifname"} ${bridge} accept`,
  );
}

/** What comes from the zone trusted passes; what goes there needs a policy, since the other zones reject it. */
function firewalldCure(bridge: string, needsPolicy: boolean): string {
  const change = (options: string) => `firewall-cmd --permanent ${options}`;
  const policy = ["--add-ingress-zone=ANY", "--add-egress-zone=trusted", "--set-target=ACCEPT"];
  return [
    change(`--zone=trusted --add-interface=${bridge}`),
    ...(needsPolicy
      ? [change("--new-policy=to-pods"), ...policy.map((rule) => change(`--policy=to-pods ${rule}`))]
      : []),
    "firewall-cmd --reload",
  ].join(" && ");
}
