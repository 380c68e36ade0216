import { expect, test } from "bun:test";
import { isCommonPortmapRule } from "./leaked-resources.ts";

const rules: readonly (readonly [rule: string, isCommon: boolean])[] = [
  ["-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT", true],
  ["-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT", true],
  [`-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ`, true],
  ["-A CNI-HOSTPORT-MASQ -m mark --mark 0x2000/0x2000 -j MASQUERADE", true],
  [
    `-A CNI-HOSTPORT-SETMARK -m comment --comment "CNI portfwd masquerade mark" -j MARK --set-xmark 0x2000/0x2000`,
    true,
  ],
  [
    `-A CNI-HOSTPORT-DNAT -p tcp -m comment --comment "dnat name: \\"berth-1\\"" -m multiport --dports 80 -j CNI-DN-1`,
    false,
  ],
  ["-A CNI-DN-1 -s 10.1.2.0/24 -p tcp -m tcp --dport 80 -j CNI-HOSTPORT-SETMARK", false],
  ["-A POSTROUTING -s 10.1.2.3/32 -j CNI-0123456789abcdef01234567", false],
];

for (const [rule, isCommon] of rules)
  test(`${rule} is ${isCommon ? "common to all pods with host ports" : "a pod's own"}`, () => {
    expect(isCommonPortmapRule(rule)).toBe(isCommon);
  });
