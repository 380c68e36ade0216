import type { KubeObject, Selector } from "../../kube/resource.ts";
import type { KubeRequest } from "../../kube/transport/connection.ts";
import { matchesSelector } from "./kube-selector.ts";

/** The resource or object that a request's path names. */
export interface RequestTarget {
  /**
   * The plural name, with `.group` unless it is in the core group: `pods`, `leases.coordination.k8s.io`. Of the discovery
   * document of a group: `node.k8s.io/`.
   */
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** Parses `/api/v1/…` and `/apis/GROUP/VERSION/…`. */
export function parseTarget({ path }: Pick<KubeRequest, "path">): RequestTarget {
  const [, api, ...parts] = path.split("/").map(decodeURIComponent);
  const group = api === "apis" ? parts.shift() : undefined;
  const [, ...rest] = parts;
  // `namespaces/a` is the namespace itself; `namespaces/a/pods` are the pods in it.
  const namespace = rest[0] === "namespaces" && rest.length > 2 ? rest[1] : undefined;
  const [plural, name, subresource] = namespace === undefined ? rest : rest.slice(2);
  if (plural === undefined) return { resource: `${group ?? ""}/`, namespace, name, subresource };
  return { resource: group === undefined ? plural : `${plural}.${group}`, namespace, name, subresource };
}

/** A short form for the list of calls: `pods/shop/web/status`. */
export const formatTarget = ({ resource, namespace, name, subresource }: RequestTarget): string =>
  [resource, namespace, name, subresource].filter((part) => part !== undefined).join("/");

/** Whether an object of the target's resource is in the target's namespace and matches the selector. */
export const matchesTarget = ({ namespace }: RequestTarget, selector: Selector, object: KubeObject): boolean =>
  (namespace === undefined || object.metadata.namespace === namespace) && matchesSelector(object, selector);
