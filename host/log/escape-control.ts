/**
 * Escapes control characters in foreign text (a container's termination message, a server's answer) for our log lines
 * and tables: a newline must not start a line that looks like ours, and no control character (including C1 and DEL,
 * which JSON does not escape) may control the terminal.
 */
export function escapeControlChars(text: string): string {
  return text.replace(/\p{Cc}/gu, (char) => {
    const json = JSON.stringify(char).slice(1, -1);
    return json === char ? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}` : json;
  });
}
