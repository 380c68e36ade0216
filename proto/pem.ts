import { decodeBase64, encodeBase64 } from "./base64.ts";

/*
 * PEM (RFC 7468) as Go's `encoding/pem` reads and writes it.
 */

const BLOCK = /^-----BEGIN ([^\n]*?)-----[ \t\r]*\n((?:(?!-----BEGIN )[^\n]*\n)*?)-----END \1-----[ \t\r]*$/gm;
const LINE_LENGTH = 64;

/** The bytes of every block in the text, whatever its type; text between blocks and headers are left out. */
export function parsePemBlocks(text: string): readonly Uint8Array[] {
  return [...text.matchAll(BLOCK)].flatMap(
    ([, , body = ""]) => decodeBase64(withoutHeaders(body).replaceAll(/[ \t]/g, "")) ?? [],
  );
}

/** A block `-----BEGIN type-----` without headers, with a newline at its end. */
export function formatPemBlock(type: string, bytes: Uint8Array): string {
  const lines = encodeBase64(bytes).match(new RegExp(`.{1,${LINE_LENGTH}}`, "g")) ?? [];
  return [`-----BEGIN ${type}-----`, ...lines, `-----END ${type}-----`, ""].join("\n");
}

/** Headers are lines `Key: value` before the base64. */
function withoutHeaders(body: string): string {
  const lines = body.split("\n");
  const first = lines.findIndex((line) => !line.includes(":"));
  return lines.slice(first).join("\n");
}
