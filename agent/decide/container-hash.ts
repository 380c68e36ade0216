import type { Container } from "../../proto/kubernetes/gen/types.ts";

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

/** UTF-8 by hand: pure code has no TextEncoder. */
function* utf8(text: string): Generator<number> {
  for (const char of text) {
    const point = char.codePointAt(0) ?? 0;
    if (point < 0x80) yield point;
    else if (point < 0x800) yield* [0xc0 | (point >> 6), tail(point)];
    else if (point < 0x10000) yield* [0xe0 | (point >> 12), tail(point >> 6), tail(point)];
    else yield* [0xf0 | (point >> 18), tail(point >> 12), tail(point >> 6), tail(point)];
  }
}

function tail(bits: number): number {
  return 0x80 | (bits & 0x3f);
}
