/**
 * JSON as Go's encoding/json writes it: `<`, `>`, `&` and the JavaScript line separators are escaped. With `indent`, as
 * its MarshalIndent does.
 */
export function goJson(value: unknown, indent?: number): string {
  const asEscape = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value, undefined, indent).replaceAll(/[<>&\u2028\u2029]/g, asEscape);
}
