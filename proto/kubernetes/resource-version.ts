/**
 * Whether the first of two resourceVersions is certainly the later one. They are decimal numbers that grow; of a server that has
 * others, such as one that is no kube-apiserver, nobody can tell.
 */
export function isCertainlyLater(version: string | undefined, than: string | undefined): boolean {
  if (!isNumber(version) || !isNumber(than)) return false;
  return version.length === than.length ? version > than : version.length > than.length;
}

/** True for a version whose order is known: a decimal number above 0. */
export function isNumber(version: string | undefined): version is string {
  return version !== undefined && /^[1-9]\d*$/.test(version);
}
