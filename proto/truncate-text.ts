/** The first `maxLength` characters of a longer text, followed by `…`: values may be megabytes long. */
export function truncateText(text: string, maxLength: number): string {
  return text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
}
