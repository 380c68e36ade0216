import type { Pod, Service, ServicePort } from "../../../proto/kubernetes/gen/types.ts";

/** The API server's own: every pod is told of it. */
const EVERYBODYS = { namespace: "default", name: "kubernetes" } as const;

/**
 * The variables by which a container finds the Services of its pod's namespace, as far as `enableServiceLinks` allows, and the API
 * server in any case. A Service without an address of its own has none. In the order of the Services' names.
 * https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
 */
export function serviceEnvironment({ metadata, spec }: Pod, services: readonly Service[]): ReadonlyMap<string, string> {
  const { namespace = "default" } = metadata;
  const isOwn = (service: Service) => spec.enableServiceLinks !== false && service.metadata.namespace === namespace;
  const linked = new Map<string, Service>();
  const addressed = services.filter(hasAddress);
  // One of the pod's own namespace that has the same name comes later, and takes the place of the API server's.
  for (const service of addressed.filter(isEverybodys)) linked.set(EVERYBODYS.name, service);
  for (const service of addressed.filter(isOwn)) linked.set(service.metadata.name ?? "", service);
  const inOrder = [...linked].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return new Map(inOrder.flatMap(([name, service]) => variablesOf(name, service)));
}

function isEverybodys({ metadata: { namespace, name } }: Service): boolean {
  return namespace === EVERYBODYS.namespace && name === EVERYBODYS.name;
}

function hasAddress({ spec: { clusterIP = "" } }: Service): boolean {
  return clusterIP !== "" && clusterIP !== "None";
}

type Variable = readonly [name: string, value: string];

function variablesOf(service: string, { spec: { clusterIP = "", ports = [] } }: Service): readonly Variable[] {
  const [first] = ports;
  if (first === undefined) return [];
  const prefix = wordOf(service);
  const named = ports.filter(({ name = "" }) => name !== "");
  return [
    [`${prefix}_SERVICE_HOST`, clusterIP],
    [`${prefix}_SERVICE_PORT`, String(first.port)],
    ...named.map(({ name = "", port }): Variable => [`${prefix}_SERVICE_PORT_${wordOf(name)}`, String(port)]),
    [`${prefix}_PORT`, addressOf(clusterIP, first)],
    ...ports.flatMap((port) => linkOf(`${prefix}_PORT_${port.port}_${protocolOf(port)}`, clusterIP, port)),
  ];
}

/** What Docker's links looked like; images of that time still read them. */
function linkOf(prefix: string, clusterIP: string, port: ServicePort): readonly Variable[] {
  return [
    [prefix, addressOf(clusterIP, port)],
    [`${prefix}_PROTO`, protocolOf(port).toLowerCase()],
    [`${prefix}_PORT`, String(port.port)],
    [`${prefix}_ADDR`, clusterIP],
  ];
}

function addressOf(clusterIP: string, port: ServicePort): string {
  const host = clusterIP.includes(":") ? `[${clusterIP}]` : clusterIP;
  return `${protocolOf(port).toLowerCase()}://${host}:${port.port}`;
}

function protocolOf({ protocol }: ServicePort): string {
  return protocol || "TCP";
}

function wordOf(name: string): string {
  return name.replaceAll("-", "_").toUpperCase();
}
