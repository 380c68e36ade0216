import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { utf8 } from "../../../proto/utf8.ts";

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * The hash by which a change of a container's spec is detected; only its name and image count.
 *
 * It equals the kubelet's, digit for digit, so that a node may change agents without restarting a container: 32-bit
 * FNV-1a over how Go prints the bytes of the JSON of both fields (`([]uint8)[123 34 …]`), in hexadecimal as in the
 * annotation `io.kubernetes.container.hash`.
 */
export function containerHash({ name, image }: Pick<Container, "name" | "image">): string {
  const json = goEscape(JSON.stringify({ image: image ?? "", name }));
  let hash = FNV_OFFSET;
  for (const char of `([]uint8)[${[...utf8(json)].join(" ")}]`)
    hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), FNV_PRIME) >>> 0;
  return hash.toString(16);
}

/** Go's JSON encoder escapes these characters (HTML, and JavaScript's line terminators). */
function goEscape(json: string): string {
  return json.replace(/[<>&\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** True for an instance created with another image than the spec has now; one without our annotation is left alone. */
export function isOutdated(
  container: Pick<Container, "name" | "image">,
  { hash }: { readonly hash: string | undefined },
): boolean {
  return hash !== undefined && hash !== containerHash(container);
}
