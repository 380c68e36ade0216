import type { KubeObject, Selector } from "../../kube/resource.ts";
import type { KubeRequest } from "../../kube/transport/connection.ts";
import { isSelected } from "./kube-selector.ts";

/** What a request is about. */
export interface Target {
  /** The plural, and the group behind a dot if it has one: `pods`, `leases.coordination.k8s.io`. */
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** Reads `/api/v1/…` and `/apis/GROUP/VERSION/…`. */
export function targetOf({ path }: Pick<KubeRequest, "path">): Target {
  const [, api, ...parts] = path.split("/").map(decodeURIComponent);
  const group = api === "apis" ? parts.shift() : undefined;
  const [, ...rest] = parts;
  // `namespaces/a` is the namespace itself, `namespaces/a/pods` is what is in it.
  const namespace = rest[0] === "namespaces" && rest.length > 2 ? rest[1] : undefined;
  const [plural = "", name, subresource] = namespace === undefined ? rest : rest.slice(2);
  return { resource: group === undefined ? plural : `${plural}.${group}`, namespace, name, subresource };
}

/** As a journal shows it: `pods/shop/web/status`. */
export const aboutOf = ({ resource, namespace, name, subresource }: Target): string =>
  [resource, namespace, name, subresource].filter((part) => part !== undefined).join("/");

/** Whether an object of the target's resource is one of those that are asked for. */
export const isWithin = ({ namespace }: Target, selector: Selector, object: KubeObject): boolean =>
  (namespace === undefined || object.metadata.namespace === namespace) && isSelected(object, selector);
