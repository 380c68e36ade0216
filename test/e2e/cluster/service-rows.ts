// Who reaches the pods of a Service by kube-proxy, and which client they see: the same rows for each network of the pods.
import { hostOf, machine, node, serverPort } from "./other-machine.ts";

export interface Addresses {
  readonly ipv4: string;
  readonly ipv6: string;
}

export interface AddressesWithNodePort extends Addresses {
  readonly nodePort: number;
}

/** Two Services with the pods `web-1` and `web-2`, which answer with their name and the client's address, and the pod `client`. */
export interface ServedPods {
  readonly web: AddressesWithNodePort;
  /** With `externalTrafficPolicy: Local`. */
  readonly local: AddressesWithNodePort;
  readonly client: Addresses;
  /** The pod `web-1`. */
  readonly first: Addresses;
}

export const podCIDRs = ["10.99.7.0/24", "fd00:99:7::/64"] as const;
export const gateway = { ipv4: "10.99.7.1", ipv6: "fd00:99:7::1" } as const;

export interface ReachabilityRow {
  readonly name: string;
  readonly from: "client" | "web-1" | "node" | "machine";
  readonly hosts: (served: ServedPods) => readonly string[];
  /** `both pods`: what each of them answers; `clients`: the client addresses that the pods see. For the other machine: its whole answer. */
  readonly shows: "both pods" | "clients";
  readonly expected: (served: ServedPods) => readonly string[];
}

/** Both families of the ClusterIP. */
export const clusterIPs = (of: AddressesWithNodePort) => [hostOf(of.ipv4, 80), hostOf(of.ipv6, 80)];
/** The NodePort at both addresses of the node. */
export const nodePorts = (of: AddressesWithNodePort) => [
  hostOf(node.ipv4, of.nodePort),
  hostOf(node.ipv6, of.nodePort),
];

/** The answers of the pods of `web` to these clients. */
const fromBoth = ({ ipv4, ipv6 }: Addresses) =>
  [ipv4, ipv6].flatMap((client) => [`web-1 ${client}`, `web-2 ${client}`]).toSorted();

const ofWeb = ({ web }: ServedPods) => clusterIPs(web);

export const serviceRows: readonly ReachabilityRow[] = [
  {
    name: "a pod reaches both pods of a Service, which see its own address",
    ...{ from: "client", hosts: ofWeb, shows: "both pods", expected: ({ client }) => fromBoth(client) },
  },
  {
    name: "a pod reaches itself through its Service, and sees the gateway",
    ...{ from: "web-1", hosts: ofWeb, shows: "both pods" },
    expected({ first }) {
      const itself = Object.values(gateway).map((address) => `web-1 ${address}`);
      return [...itself, ...Object.values(first).map((address) => `web-2 ${address}`)].toSorted();
    },
  },
  {
    name: "the node reaches both pods of a Service, which see the gateway",
    ...{ from: "node", hosts: ofWeb, shows: "both pods", expected: () => fromBoth(gateway) },
  },
  ...(["client", "web-1", "node", "machine"] as const).map(
    (from): ReachabilityRow => ({
      name: `at a NodePort the pods see the gateway instead of: ${from}`,
      ...{ from, hosts: ({ web }) => nodePorts(web), shows: "clients", expected: () => Object.values(gateway) },
    }),
  ),
  ...(
    [
      ["a pod's own address", "client", ({ client }: ServedPods) => client],
      ["the gateway instead of the node", "node", () => gateway],
      ["the address of another machine", "machine", () => machine],
    ] as const
  ).map(
    ([what, from, seen]): ReachabilityRow => ({
      name: `at a NodePort with externalTrafficPolicy Local the pods see ${what}`,
      ...{ from, hosts: ({ local }) => nodePorts(local), shows: "clients" },
      expected(served) {
        const { ipv4, ipv6 } = seen(served);
        return [ipv4, ipv6];
      },
    }),
  ),
  {
    name: "the other machine sees the node's addresses in place of a pod's",
    ...{ from: "client", shows: "clients", expected: () => [`machine ${node.ipv4}`, `machine ${node.ipv6}`] },
    hosts: () => Object.values(machine).map((address) => hostOf(address, serverPort)),
  },
];

/** Answers with names in place of addresses, which differ from one start of the pods to the next. */
export function withNames(answers: readonly string[], { client, first }: ServedPods): readonly string[] {
  const names = new Map<string, string>();
  for (const [name, { ipv4, ipv6 }] of Object.entries({ client, "web-1": first, gateway, node, machine })) {
    names.set(ipv4, `${name} by IPv4`);
    names.set(ipv6, `${name} by IPv6`);
  }
  return answers.map((answer) => answer.replace(/\S+$/, (address) => names.get(address) ?? address));
}
