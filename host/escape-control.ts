/**
 * What others have said (a container's last words, a server's answer), to be shown in a line of ours: a newline in it must not begin a line
 * that looks like ours, and no control character (C1 and DEL among them, which JSON leaves as they are) may steer the terminal that shows it.
 */
export function inOneLine(text: string): string {
  return text.replace(/\p{Cc}/gu, (char) => {
    const json = JSON.stringify(char).slice(1, -1);
    return json === char ? `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}` : json;
  });
}
