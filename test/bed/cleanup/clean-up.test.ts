import { expect, test } from "bun:test";
import { emptyChainRemovalInput, ruleRemovalInput } from "./clean-up.ts";

const sharedChains = `*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-MASQ - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE
-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000
`;
const podRules = (network: string, chain: string) => `:${chain} - [0:0]
-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"${network}\\" id: \\"4711\\"" -m multiport --dports 80 -j ${chain}
-A ${chain} -s 10.1.2.0/24 -p tcp -m tcp --dport 80 -j CNI-HOSTPORT-SETMARK
-A ${chain} -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.1.2.3:8080
`;

test("removalOf removes a pod's rule with its chain, and keeps the rules of other networks", () => {
  const saved = `${sharedChains}${podRules("berth-1", "CNI-DN-aa11")}${podRules("berth-2", "CNI-DN-bb22")}COMMIT\n`;
  expect(ruleRemovalInput(saved, "berth-1")).toBe(`*nat
-D CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"berth-1\\" id: \\"4711\\"" -m multiport --dports 80 -j CNI-DN-aa11
-F CNI-DN-aa11
-X CNI-DN-aa11
COMMIT
`);
});

test("removalOf keeps the rules of a network whose name only begins like ours", () => {
  expect(ruleRemovalInput(`${sharedChains}${podRules("berth-12", "CNI-DN-cc33")}COMMIT\n`, "berth-1")).toBe(
    "*nat\nCOMMIT\n",
  );
});

test("portmap's shared chains stay while a pod uses them", () => {
  expect(emptyChainRemovalInput(`${sharedChains}${podRules("docker", "CNI-DN-dd44")}COMMIT\n`)).toBe("");
});

test("portmap's shared chains are removed with the jumps to them when no pod uses them", () => {
  expect(emptyChainRemovalInput(`${sharedChains}COMMIT\n`)).toBe(`*nat
-D PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-D OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-D POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ
-F CNI-HOSTPORT-MASQ
-F CNI-HOSTPORT-SETMARK
-X CNI-HOSTPORT-DNAT
-X CNI-HOSTPORT-MASQ
-X CNI-HOSTPORT-SETMARK
COMMIT
`);
});

test("nothing is removed on a machine without portmap's chains", () => {
  expect(emptyChainRemovalInput("*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n")).toBe("");
});
