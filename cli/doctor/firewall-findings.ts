import { type Finding, type Judge, judged, okFinding, warningFinding } from "./finding.ts";
import type { ForwardDrop } from "./firewall-facts.ts";

/** Docker and ufw set the policy of FORWARD to DROP, which also drops the packets of pods. */
export const judgeFirewall: Judge = (facts) =>
  judged(facts, "forwardDrops", { check: "firewall", subject: "the firewall's chains" }, (drops) =>
    drops.length === 0
      ? [okFinding("firewall", "no chain drops forwarded packets by its policy")]
      : drops.map(judgeDrop),
  );

function judgeDrop(drop: ForwardDrop): Finding {
  const { family, table, chain, owner } = drop;
  const by = owner === undefined ? "" : ` (${owner === "docker" ? "Docker" : "ufw"})`;
  return warningFinding(
    "firewall",
    `the policy of the chain ${chain} of the table ${family} ${table}${by} is drop: unless a rule of it accepts their packets, pods reach no other machine and other machines reach no pod`,
    `${cureOf(drop)}, with the bridge of the pods (berth0, cni0) as BRIDGE`,
  );
}

/** The rule must be in the chain itself: one that accepts in another base chain does not keep this one from dropping. */
function cureOf({ family, table, chain, owner }: ForwardDrop): string {
  if (owner === "ufw") return "ufw route allow in on BRIDGE, and ufw route allow out on BRIDGE";
  if (family === "iptables" || family === "ip6tables" || owner === "docker") {
    const program = family === "ip6" || family === "ip6tables" ? "ip6tables" : "iptables";
    const command = `${family.endsWith("tables") ? `${program}-legacy` : program} -I ${owner === "docker" ? "DOCKER-USER" : chain}`;
    return `${command} -i BRIDGE -j ACCEPT, and ${command} -o BRIDGE -j ACCEPT`;
  }
  const command = `nft insert rule ${family} ${table} ${chain}`;
  return `${command} iifname BRIDGE accept, and ${command} oifname BRIDGE accept`;
}
