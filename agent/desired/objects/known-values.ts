/** A value with a version, or why there is none. */
type Known = { readonly version: string } | { readonly failure: string };

/** What is known of the objects that pods refer to, by key, and its versions, which decisions compare. */
export interface KnownValues<T extends Known> {
  readonly latest: ReadonlyMap<string, T>;
  /** `failed` if there is no value. */
  readonly versions: ReadonlyMap<string, string>;
  /** Returns whether the value, or the reason for its absence, is another one now. */
  set(key: string, known: T): boolean;
  delete(key: string): void;
}

export function createKnownValues<T extends Known>(): KnownValues<T> {
  const latest = new Map<string, T>();
  const versions = new Map<string, string>();
  return {
    latest,
    versions,
    set(key, known) {
      const before = latest.get(key);
      latest.set(key, known);
      versions.set(key, "failure" in known ? "failed" : known.version);
      return before === undefined || identityOf(before) !== identityOf(known);
    },
    delete(key) {
      latest.delete(key);
      versions.delete(key);
    },
  };
}

const identityOf = (known: Known) => ("failure" in known ? `failed: ${known.failure}` : known.version);

/** Returns a version: the same for the same text, also in the next agent. The text, a key or a token, cannot be computed from it. */
export function versionOfText(text: string): string {
  return new Bun.CryptoHasher("sha256").update(text).digest("hex").slice(0, 16);
}
