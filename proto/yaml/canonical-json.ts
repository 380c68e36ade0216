import type { Json } from "./node.ts";

/**
 * The value of a text that is JSON just as a program writes it: compact, or indented throughout by the same blanks. Undefined for any
 * other text, JSON in other forms among it.
 *
 * What is written again letter for letter has no key twice, no comment, and no number that loses a digit, so it means the same to
 * every reader, and one that knows the lines of its values is needed only to say where something is wrong.
 */
export function readCanonicalJson(text: string): Json | undefined {
  if (!/^[[{]/.test(text)) return undefined;
  const [, indent = ""] = /^[[{]\n([ \t]{1,8})/.exec(text) ?? [];
  try {
    const value = JSON.parse(text) as Json;
    return JSON.stringify(value, null, indent) === text.trimEnd() ? value : undefined;
  } catch {
    // Not JSON, or nested too deep to be written again: whoever reads YAML says what is wrong with it.
    return undefined;
  }
}
