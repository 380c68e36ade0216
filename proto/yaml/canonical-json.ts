import { type Json, MAX_DEPTH } from "./value-node.ts";

/**
 * Parses JSON in the form that programs write: compact, or indented by the same blanks throughout. Returns undefined
 * for any other text.
 *
 * JSON.stringify must reproduce the text. So it has no repeated key, no comment and no number that loses digits, and
 * means the same to every parser. The YAML parser, which records line numbers, is only needed for other texts.
 */
export function parseCanonicalJson(text: string): Json | undefined {
  if (!/^[[{]/.test(text) || !hasAllowedDepth(text)) return undefined;
  const [, indent = ""] = /^[[{]\n([ \t]{1,8})/.exec(text) ?? [];
  try {
    const value = JSON.parse(text) as Json;
    return JSON.stringify(value, null, indent) === text.trimEnd() ? value : undefined;
  } catch {
    // Not JSON: the YAML parser reports the error.
    return undefined;
  }
}

/** JSON.parse recurses as deep as the text, so the depth is checked first. */
function hasAllowedDepth(text: string): boolean {
  let depth = 0;
  for (const [bracket] of text.replace(/"(?:[^"\\]|\\.)*"/g, "").matchAll(/[[\]{}]/g)) {
    depth += bracket === "[" || bracket === "{" ? 1 : -1;
    if (depth > MAX_DEPTH) return false;
  }
  return true;
}
