/** The messages of the guest to the host, one JSON object per line. */
export type GuestMessage =
  /** It has booted and will run these checks. */
  | { readonly kind: "begin"; readonly checks: readonly string[]; readonly machine: string }
  | { readonly kind: "passed"; readonly check: string; readonly detail: string }
  | { readonly kind: "failed"; readonly check: string; readonly detail: string }
  /** The log of a program of the guest, sent after a failed check. */
  | { readonly kind: "log"; readonly name: string; readonly text: string };

/** Parses a line of the guest; undefined if it is not a message. */
export function parseGuestMessage(line: string): GuestMessage | undefined {
  try {
    const message: unknown = JSON.parse(line);
    return typeof message === "object" && message !== null && "kind" in message ? (message as GuestMessage) : undefined;
  } catch {
    // A kernel panic may write to this port too.
    return undefined;
  }
}
