/**
 * Whether the first of two resourceVersions is certainly later. kube-apiserver uses growing decimal numbers; the
 * versions of another server may not be comparable.
 */
export function isCertainlyLater(version: string | undefined, than: string | undefined): boolean {
  if (!isNumber(version) || !isNumber(than)) return false;
  return version.length === than.length ? version > than : version.length > than.length;
}

/** Whether the version is comparable: a decimal number above 0. */
export function isNumber(version: string | undefined): version is string {
  return version !== undefined && /^[1-9]\d*$/.test(version);
}
