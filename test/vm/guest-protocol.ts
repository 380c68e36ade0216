/** What the guest says to the host, one JSON a line. */
export type Word =
  /** It has booted, and these are the checks that it is going to make. */
  | { readonly kind: "begin"; readonly checks: readonly string[]; readonly machine: string }
  | { readonly kind: "passed"; readonly check: string; readonly detail: string }
  | { readonly kind: "failed"; readonly check: string; readonly detail: string }
  /** What a program of the guest has written, when a check has failed. */
  | { readonly kind: "log"; readonly name: string; readonly text: string };

/** The word on a line of the guest, or undefined for anything else. */
export function readWord(line: string): Word | undefined {
  try {
    const word: unknown = JSON.parse(line);
    return typeof word === "object" && word !== null && "kind" in word ? (word as Word) : undefined;
  } catch {
    // A kernel that breaks down writes where it likes.
    return undefined;
  }
}
