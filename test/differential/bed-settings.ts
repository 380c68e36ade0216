import { createHash } from "node:crypto";
import { referenceSettings } from "../upstream/reference-kubelet.ts";
import { objectsOfVolumes } from "./cases/objects-of-volumes.ts";

/*
 * What every node of the differential bed has beside the pods of the cases: the settings of its agent, and the API
 * objects that pods refer to.
 */

/** The release of the container runtime. */
export const containerdRelease = "1.6";

/** The cluster DNS settings of every node. No server listens at the address. */
export const dns = { clusterDNS: ["10.191.0.10"], clusterDomain: "cluster.local" };

/** The objects that pods of this namespace refer to, without those of volumes, and the namespace itself. */
export function objectsOfNamespace(namespace: string): readonly object[] {
  return [
    { apiVersion: "v1", kind: "Namespace", metadata: { name: namespace } },
    service(namespace, "back-end", {
      ports: [
        { name: "http", port: 80, targetPort: 8080 },
        { name: "dns-udp", port: 53, protocol: "UDP" },
      ],
    }),
    service(namespace, "plain", { ports: [{ port: 9 }] }),
    service(namespace, "headless", { clusterIP: "None", ports: [{ port: 9 }] }),
    {
      ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "login", namespace } },
      stringData: { user: "admin", pass: "pa$$(user)", "tls.key": "of login" },
    },
    {
      ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "site", namespace } },
      data: { user: "guest", colour: "blue", zone: "$(colour)" },
    },
  ];
}

const service = (namespace: string, name: string, spec: object) => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace },
  spec: { selector: { app: name }, ...spec },
});
const runtimeClass = (name: string, handler: string) => ({
  apiVersion: "node.k8s.io/v1",
  kind: "RuntimeClass",
  metadata: { name },
  handler,
});

/** The runtime classes of the cluster. */
export const runtimeClasses: readonly object[] = [
  { ...runtimeClass("heavy", "runc"), overhead: { podFixed: { cpu: "10m", memory: "8Mi" } } },
  runtimeClass("nowhere", "no-such-handler"),
];

/** What of the bed can change what a kubelet shows of a pod. */
const bedSettings = {
  containerdRelease,
  kubelet: { ...referenceSettings, ...dns },
  objects: [...objectsOfNamespace("NAMESPACE"), ...objectsOfVolumes, ...runtimeClasses],
};

/** The hash of the bed that a recording is valid for. */
export function hashOfBed(settings: object = bedSettings): string {
  return createHash("sha256").update(JSON.stringify(settings)).digest("hex").slice(0, 16);
}
