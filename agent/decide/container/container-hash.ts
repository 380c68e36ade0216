import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { utf8 } from "../../../proto/utf8.ts";

const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * The hash that tells whether a running container still is what the pod asks for; only its name and image count.
 *
 * It equals the reference kubelet's, digit for digit, so that a node may change agents without restarting a container:
 * 32-bit FNV-1a over how Go prints the bytes of the JSON of both fields (`([]uint8)[123 34 …]`), in hexadecimal as in the
 * annotation `io.kubernetes.container.hash`.
 */
export function containerHash({ name, image }: Pick<Container, "name" | "image">): string {
  const json = goEscape(JSON.stringify({ image: image ?? "", name }));
  let hash = FNV_OFFSET;
  for (const char of `([]uint8)[${[...utf8(json)].join(" ")}]`)
    hash = Math.imul(hash ^ (char.codePointAt(0) ?? 0), FNV_PRIME) >>> 0;
  return hash.toString(16);
}

/** Go's JSON encoder escapes what could end a script element or a line of JavaScript. */
function goEscape(json: string): string {
  return json.replace(/[<>&\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** True for an instance that was made of another image than the pod asks for now; one without our mark is left as it is. */
export function isOutdated(container: Container, { hash }: { readonly hash: string | undefined }): boolean {
  return hash !== undefined && hash !== containerHash(container);
}
