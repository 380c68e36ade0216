import { expect, test } from "bun:test";
import { dropsPackets, type ForwardChain } from "./forwarding.ts";
import { parseRules } from "./iptables-rules.ts";

/** Which packets of berth0 the chain FORWARD drops. `output` is that of `iptables -S`. */
function droppedBy(output: string, policy: ForwardChain["policy"] = "drop"): string {
  const chain = { family: "ip", table: "filter", chain: "FORWARD", policy, rules: parseRules(output) } as const;
  return (["in", "out"] as const).filter((side) => dropsPackets(chain, { side, link: "berth0" })).join(" ");
}

const docker = "-N DOCKER-USER\n-A FORWARD -j DOCKER-USER\n-A FORWARD -i docker0 -j ACCEPT\n";
const ufw =
  "-N ufw-before-forward\n-N ufw-user-forward\n-A FORWARD -j ufw-before-forward\n" +
  "-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A ufw-before-forward -j ufw-user-forward\n";

test.each([
  ["the policy decides where no rule does", "", "in out"],
  ["a rule that accepts everything", "-A FORWARD -j ACCEPT\n", ""],
  ["Docker's rules do not concern another bridge", docker, "in out"],
  ["nor ufw's", ufw, "in out"],
  ["one direction", `${docker}-A DOCKER-USER -i berth0 -j ACCEPT\n`, "out"],
  [
    "Docker's chain for the user",
    `${docker}-A DOCKER-USER -i berth0 -j ACCEPT\n-A DOCKER-USER -o berth0 -j ACCEPT\n`,
    "",
  ],
  [
    "ufw's chain for the user",
    `${ufw}-A ufw-user-forward -i berth0 -j ACCEPT\n-A ufw-user-forward -o berth0 -j ACCEPT\n`,
    "",
  ],
  ["the beginning of the name", "-A FORWARD -i berth+ -j ACCEPT\n-A FORWARD -o + -j ACCEPT\n", ""],
  ["a longer name is another link", "-A FORWARD -i berth01 -j ACCEPT\n", "in out"],
  ["a rule for one port", "-A FORWARD -o berth0 -p tcp -m tcp --dport 80 -j ACCEPT\n", "in out"],
  [
    "a comment that looks like a rule",
    '-A FORWARD -o berth0 -m comment --comment "x -i eth0 -j DROP" -j ACCEPT\n',
    "in",
  ],
  ["a rule for two links, of which one is not known", "-A FORWARD -i berth0 -o eth0 -j ACCEPT\n", "in out"],
  ["all links but one", "-A FORWARD -i berth0 ! -o berth0 -j ACCEPT\n-A FORWARD ! -i berth0 -o berth0 -j ACCEPT\n", ""],
  ["all links but this one", "-A FORWARD ! -o berth0 -j ACCEPT\n", "out"],
  ["the first rule counts", "-A FORWARD -i berth0 -j DROP\n-A FORWARD -j ACCEPT\n", "in"],
  ["a chain that returns", "-N a\n-A FORWARD -j a\n-A a -j RETURN\n-A a -j ACCEPT\n", "in out"],
  ["a chain that goes to another does not come back", "-N a\n-A FORWARD -g a\n-A FORWARD -j ACCEPT\n", "in out"],
  ["a rule that only logs", "-A FORWARD -j LOG\n-A FORWARD -j ACCEPT\n", ""],
])("policy drop: %s", (_, output, dropped) => {
  expect(droppedBy(output)).toBe(dropped);
});

test.each([
  ["no rule", "", ""],
  [
    "the refusal of all that is left",
    "-A FORWARD -i berth0 -j ACCEPT\n-A FORWARD -j REJECT --reject-with icmp-port-unreachable\n",
    "out",
  ],
  ["the refusal of invalid packets", "-A FORWARD -m conntrack --ctstate INVALID -j DROP\n", ""],
])("policy accept: %s", (_, output, dropped) => {
  expect(droppedBy(output, "accept")).toBe(dropped);
});
