import { expect, test } from "bun:test";
import { CniError } from "../error.ts";
import { type NetworkSelection, parseNetworksAnnotation } from "./network-selection.ts";

const pod = { namespace: "shop", ifName: "eth0" };
const plain: NetworkSelection = {
  ...{ namespace: "shop", name: "lan", ifName: "net1" },
  ...{ capabilityArgs: {}, defaultRoute: undefined, cniArgs: undefined },
};

/** What the annotation selects, or the failure as `code: message`. */
function read(annotation: unknown): readonly NetworkSelection[] | string {
  try {
    return parseNetworksAnnotation(typeof annotation === "string" ? annotation : JSON.stringify(annotation), pod);
  } catch (error) {
    return error instanceof CniError ? `${error.code}: ${error.message}` : String(error);
  }
}

const selected: readonly (readonly [
  what: string,
  annotation: unknown,
  selections: readonly Partial<NetworkSelection>[],
])[] = [
  ["an empty one selects nothing", " ", []],
  ["an empty list selects nothing", [], []],
  ["a name is one of the pod's namespace", "lan", [{}]],
  ["a name may have a namespace and an interface", "infra/lan@lan0", [{ namespace: "infra", ifName: "lan0" }]],
  [
    "several names count their interfaces by their place",
    "lan, infra/store@st0 ,lan",
    [{}, { namespace: "infra", name: "store", ifName: "st0" }, { ifName: "net3" }],
  ],
  ["a list has a name for each network", [{ name: "lan" }, { name: "lan", namespace: "" }], [{}, { ifName: "net2" }]],
  ["a list is read in any layout", '\n [ {"name":"lan"} ] \n', [{}]],
  [
    "an object may name its namespace and its interface",
    [{ name: "lan", namespace: "infra", interface: "lan0" }],
    [{ namespace: "infra", ifName: "lan0" }],
  ],
  [
    "addresses with and without a prefix are those of the capability ips",
    [{ name: "lan", ips: ["10.2.2.42/24", "2001:db8::5"] }],
    [{ capabilityArgs: { ips: ["10.2.2.42/24", "2001:db8::5"] } }],
  ],
  [
    "hardware addresses have capabilities of their own",
    [{ name: "lan", mac: "02:23:45:67:89:Ab", "infiniband-guid": "24:8a:07:03:00:8d:ae:2f" }],
    [{ capabilityArgs: { mac: "02:23:45:67:89:Ab", infinibandGUID: "24:8a:07:03:00:8d:ae:2f" } }],
  ],
  [
    "a port has the protocol tcp if it names none, and any case",
    [
      {
        name: "lan",
        portMappings: [
          { hostPort: 8080, containerPort: 80 },
          { hostPort: 53, containerPort: 53, protocol: "UDP", hostIP: "192.0.2.1" },
        ],
      },
    ],
    [
      {
        capabilityArgs: {
          portMappings: [
            { hostPort: 8080, containerPort: 80, protocol: "tcp" },
            { hostPort: 53, containerPort: 53, protocol: "udp", hostIP: "192.0.2.1" },
          ],
        },
      },
    ],
  ],
  [
    "a rate without a burst has an unlimited one",
    [{ name: "lan", bandwidth: { ingressRate: 2048, egressRate: 8000, egressBurst: 200 } }],
    [
      {
        capabilityArgs: {
          bandwidth: { ingressRate: 2048, ingressBurst: 4294967295, egressRate: 8000, egressBurst: 200 },
        },
      },
    ],
  ],
  [
    "one network may have the default route, with gateways of its own or those of its result",
    [{ name: "lan" }, { name: "lan", "default-route": ["10.0.0.1", "fd00::1"] }],
    [{}, { ifName: "net2", defaultRoute: ["10.0.0.1", "fd00::1"] }],
  ],
  ["cni-args are kept as they are", [{ name: "lan", "cni-args": { vlan: [1] } }], [{ cniArgs: { vlan: [1] } }]],
  ["keys of other programs are left alone", [{ name: "lan", "org.example.key": 1, "ipam-claim-reference": "c" }], [{}]],
];
for (const [what, annotation, selections] of selected)
  test(what, () => expect(read(annotation)).toEqual(selections.map((each) => ({ ...plain, ...each }))));

const list = (fields: object) => [{ name: "lan", ...fields }];
const refused: readonly (readonly [what: string, annotation: unknown, problem: string])[] = [
  ["broken JSON", '[{"name":', 'found "[{\\"name\\":", must be JSON, or names separated by commas: '],
  ["one object", { name: "lan" }, 'found {"name":"lan"}, must be a list'],
  ["a list of names", ["lan"], '[0]: found "lan", must be an object with a name'],
  ["an empty element", "lan,,wan", '[1]: found "", must be [namespace/]name[@interface]'],
  ["two slashes", "a/b/c", '[0]: found "a/b/c", must be [namespace/]name[@interface]'],
  ["no interface behind @", "lan@", '[0]: found "lan@", must be [namespace/]name[@interface]'],
  ["no name", [{}], "[0].name: found nothing, must be the name of a NetworkAttachmentDefinition"],
  ["a name with capitals", "LAN", '[0].name: found "LAN", must be the name of a NetworkAttachmentDefinition'],
  ["a name that leads out of a folder", list({ name: ".." }), '[0].name: found "..", must be the name'],
  [
    "a namespace that is none",
    list({ namespace: "a.b" }),
    '[0].namespace: found "a.b", must be the name of a namespace',
  ],
  ["a long interface", "lan@abcdefghijklmnop", '[0].interface: found "abcdefghijklmnop", must have at most 15 bytes'],
  ["an interface that is no text", list({ interface: 1 }), "[0].interface: found 1, must be the name of an interface"],
  ["the loopback", "lan@lo", '[0].interface: found "lo", must be another interface than the loopback'],
  [
    "the default interface",
    "lan@eth0",
    '[0].interface: found "eth0", must be another interface than that of the default network',
  ],
  ["an interface twice", "lan@net2,lan", '[1].interface: found "net2", must be another interface than that of [0]'],
  [
    "no address",
    list({ ips: [] }),
    '[0].ips: found [], must be a list of at least one address, such as "10.2.2.42/24"',
  ],
  ["an address that is none", list({ ips: ["10.2.2.300"] }), '[0].ips: found ["10.2.2.300"], must be'],
  ["a prefix that is too long", list({ ips: ["10.2.2.3/33"] }), '[0].ips: found ["10.2.2.3/33"], must be'],
  [
    "an address beside a claim",
    list({ ips: ["10.2.2.3"], "ipam-claim-reference": "c" }),
    "[0]: found ips and ipam-claim-reference",
  ],
  [
    "a short hardware address",
    list({ mac: "02:00:00:00:00" }),
    '[0].mac: found "02:00:00:00:00", must be 6 bytes such as 02:02:02:02:02:02',
  ],
  [
    "a GUID of six bytes",
    list({ "infiniband-guid": "02:00:00:00:00:01" }),
    '[0].infiniband-guid: found "02:00:00:00:00:01", must be 8 bytes',
  ],
  [
    "no port",
    list({ portMappings: [] }),
    "[0].portMappings: found [], must be a list of at least one object with hostPort",
  ],
  [
    "a port above 65535",
    list({ portMappings: [{ hostPort: 65536, containerPort: 1 }] }),
    "[0].portMappings[0].hostPort: found 65536, must be a port from 1 to 65535",
  ],
  [
    "no port of the container",
    list({ portMappings: [{ hostPort: 1 }] }),
    "[0].portMappings[0].containerPort: found nothing, must be a port",
  ],
  [
    "another protocol",
    list({ portMappings: [{ hostPort: 1, containerPort: 1, protocol: "icmp" }] }),
    '[0].portMappings[0].protocol: found "icmp", must be one of tcp, udp, sctp',
  ],
  [
    "an address of a host that is none",
    list({ portMappings: [{ hostPort: 1, containerPort: 1, hostIP: "h" }] }),
    '[0].portMappings[0].hostIP: found "h", must be an IP address',
  ],
  [
    "an empty bandwidth",
    list({ bandwidth: {} }),
    "[0].bandwidth: found {}, must be an object with ingressRate or egressRate",
  ],
  [
    "a rate of 0",
    list({ bandwidth: { ingressRate: 0 } }),
    "[0].bandwidth.ingressRate: found 0, must be a whole number of bits above 0",
  ],
  [
    "a burst without a rate",
    list({ bandwidth: { ingressBurst: 1 } }),
    "[0].bandwidth.ingressBurst: found without ingressRate, must have both",
  ],
  ["cni-args that are no object", list({ "cni-args": "a" }), '[0].cni-args: found "a", must be an object'],
  [
    "an unknown key",
    list({ macs: [] }),
    '[0]: found the key "macs", must be one of name, namespace, interface, ips, mac,',
  ],
  [
    "a gateway that is none",
    list({ "default-route": ["fe80::1%eth0"] }),
    '[0].default-route: found ["fe80::1%eth0"], must',
  ],
  [
    "a second gateway of a family",
    list({ "default-route": ["10.0.0.1", "10.0.0.2"] }),
    '[0].default-route: found ["10.0.0.1","10.0.0.2"], must have at most one gateway of each family',
  ],
  [
    "a second default route",
    [...list({ "default-route": [] }), ...list({ "default-route": ["10.0.0.1"] })],
    "[1].default-route: [0] has it, too; must be on one network",
  ],
];
for (const [what, annotation, problem] of refused)
  test(`${what} is refused`, () => expect(read(annotation)).toStartWith(`7: k8s.v1.cni.cncf.io/networks: ${problem}`));
