import { isObject } from "../proto/is-object.ts";
import type { CacheEntry } from "./cache-entry.ts";

/** `unknown` if the cache does not say where it is. */
export type NamespaceState = "mounted" | "gone" | "unknown";

type CachedNamespace = Pick<CacheEntry, "netns" | "result">;

/**
 * The path of an attachment's network namespace. libcni before 1.1, as in containerd 1.6, does not write it into its entries, but results
 * name it. Empty if neither does, as of a torn entry.
 */
export function namespaceOf({ netns, result }: CachedNamespace): string {
  const { interfaces } = result;
  if (netns !== "" || !Array.isArray(interfaces)) return netns;
  const paths = interfaces.map((each: unknown) => (isObject(each) ? each["sandbox"] : undefined));
  return paths.find((path): path is string => typeof path === "string" && path !== "") ?? "";
}

/** Whether an attachment's network namespace still exists. Rejects as `isNamespace`. */
export async function stateOfNamespace(
  attachment: CachedNamespace,
  isNamespace: (path: string) => Promise<boolean>,
): Promise<NamespaceState> {
  const path = namespaceOf(attachment);
  if (path === "") return "unknown";
  return (await isNamespace(path)) ? "mounted" : "gone";
}
