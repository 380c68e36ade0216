import { expect, test } from "bun:test";
import {
  configMaps,
  events,
  leases,
  nodes,
  pathOf,
  pods,
  type Resource,
  runtimeClasses,
  secrets,
  services,
} from "./resource.ts";

const paths: readonly (readonly [string, Resource, string?, string?])[] = [
  ["/api/v1/nodes", nodes],
  ["/api/v1/nodes/a", nodes, "a"],
  ["/api/v1/nodes/a/status", nodes, "a", "status"],
  ["/api/v1/pods", pods()],
  ["/api/v1/namespaces/shop/pods", pods("shop")],
  ["/api/v1/namespaces/shop/pods/web/status", pods("shop"), "web", "status"],
  ["/api/v1/services", services()],
  ["/api/v1/namespaces/shop/events", events("shop")],
  ["/api/v1/namespaces/shop/secrets/s", secrets("shop"), "s"],
  ["/api/v1/namespaces/shop/configmaps/c", configMaps("shop"), "c"],
  ["/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a", leases("kube-node-lease"), "a"],
  ["/apis/node.k8s.io/v1/runtimeclasses/kata", runtimeClasses, "kata"],
  ["/api/v1/namespaces/shop/events/web.17f%2F..", events("shop"), "web.17f/.."],
];

for (const [path, resource, name, subresource] of paths)
  test(path, () => {
    expect(pathOf(resource, name, subresource)).toBe(path);
  });
