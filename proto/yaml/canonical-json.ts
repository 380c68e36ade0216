import { deepest, type Json } from "./value-node.ts";

/**
 * The value of a text that is JSON just as a program writes it: compact, or indented throughout by the same blanks. Undefined for any
 * other text, JSON in other forms among it.
 *
 * What is written again letter for letter has no key twice, no comment, and no number that loses a digit, so it means the same to
 * every reader, and one that knows the lines of its values is needed only to say where something is wrong.
 */
export function readCanonicalJson(text: string): Json | undefined {
  if (!/^[[{]/.test(text) || !isShallow(text)) return undefined;
  const [, indent = ""] = /^[[{]\n([ \t]{1,8})/.exec(text) ?? [];
  try {
    const value = JSON.parse(text) as Json;
    return JSON.stringify(value, null, indent) === text.trimEnd() ? value : undefined;
  } catch {
    // Not JSON: whoever reads YAML says what is wrong with it.
    return undefined;
  }
}

/** Whoever parses goes as deep as the text does; so it is looked at before. */
function isShallow(text: string): boolean {
  let depth = 0;
  for (const [bracket] of text.replace(/"(?:[^"\\]|\\.)*"/g, "").matchAll(/[[\]{}]/g)) {
    depth += bracket === "[" || bracket === "{" ? 1 : -1;
    if (depth > deepest) return false;
  }
  return true;
}
