import type { Pod, Service, ServicePort } from "../../../proto/kubernetes/gen/types.ts";

/** The Service of the API server, which every pod gets. */
const API_SERVER_SERVICE = { namespace: "default", name: "kubernetes" } as const;

/**
 * The service environment of a container: the API server's Service always, the Services of the pod's namespace unless
 * `enableServiceLinks` is false, sorted by name. Services without a cluster IP have none.
 * https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
 */
export function serviceEnvironment({ metadata, spec }: Pod, services: readonly Service[]): ReadonlyMap<string, string> {
  const { namespace = "default" } = metadata;
  const isOwn = (service: Service) => spec.enableServiceLinks !== false && service.metadata.namespace === namespace;
  const linked = new Map<string, Service>();
  const addressed = services.filter(hasAddress);
  // A Service named "kubernetes" in the pod's own namespace overrides the API server's, so it is set second.
  for (const service of addressed.filter(isApiServerService)) linked.set(API_SERVER_SERVICE.name, service);
  for (const service of addressed.filter(isOwn)) linked.set(service.metadata.name ?? "", service);
  const sorted = [...linked].toSorted(([one], [other]) => (one < other ? -1 : 1));
  return new Map(sorted.flatMap(([name, service]) => variablesOf(name, service)));
}

function isApiServerService({ metadata: { namespace, name } }: Service): boolean {
  return namespace === API_SERVER_SERVICE.namespace && name === API_SERVER_SERVICE.name;
}

function hasAddress({ spec: { clusterIP = "" } }: Service): boolean {
  return clusterIP !== "" && clusterIP !== "None";
}

type Variable = readonly [name: string, value: string];

function variablesOf(service: string, { spec: { clusterIP = "", ports = [] } }: Service): readonly Variable[] {
  const [first] = ports;
  if (first === undefined) return [];
  const prefix = envNameOf(service);
  const named = ports.filter(({ name = "" }) => name !== "");
  return [
    [`${prefix}_SERVICE_HOST`, clusterIP],
    [`${prefix}_SERVICE_PORT`, String(first.port)],
    ...named.map(({ name = "", port }): Variable => [`${prefix}_SERVICE_PORT_${envNameOf(name)}`, String(port)]),
    [`${prefix}_PORT`, urlOf(clusterIP, first)],
    ...ports.flatMap((port) => linkOf(`${prefix}_PORT_${port.port}_${protocolOf(port)}`, clusterIP, port)),
  ];
}

/** The variables of Docker's container links, which old images still read. */
function linkOf(prefix: string, clusterIP: string, port: ServicePort): readonly Variable[] {
  return [
    [prefix, urlOf(clusterIP, port)],
    [`${prefix}_PROTO`, protocolOf(port).toLowerCase()],
    [`${prefix}_PORT`, String(port.port)],
    [`${prefix}_ADDR`, clusterIP],
  ];
}

function urlOf(clusterIP: string, port: ServicePort): string {
  const host = clusterIP.includes(":") ? `[${clusterIP}]` : clusterIP;
  return `${protocolOf(port).toLowerCase()}://${host}:${port.port}`;
}

function protocolOf({ protocol }: ServicePort): string {
  return protocol || "TCP";
}

function envNameOf(name: string): string {
  return name.replaceAll("-", "_").toUpperCase();
}
