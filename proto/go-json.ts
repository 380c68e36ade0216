/** JSON as Go's encoding/json writes it: `<`, `>`, `&` and the JavaScript line separators are escaped. */
export function goJson(value: unknown): string {
  const asEscape = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replaceAll(/[<>&\u2028\u2029]/g, asEscape);
}
