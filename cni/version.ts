/** The released versions of the specification, the oldest first. */
export const cniVersions = ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;
export type CniVersion = (typeof cniVersions)[number];

/** The version that this code implements. */
export const CURRENT_VERSION: CniVersion = "1.1.0";

/** Whether `version` is `other` or later. */
export function isAtLeast(version: CniVersion, other: CniVersion): boolean {
  return cniVersions.indexOf(version) >= cniVersions.indexOf(other);
}

/** Whether networks of this version have CHECK. */
export const hasCheck = (version: CniVersion): boolean => isAtLeast(version, "0.4.0");

/**
 * The highest of the versions that a configuration names in `cniVersion` and `cniVersions` and that this code implements;
 * undefined if there is none. A configuration that names no version has 0.1.0. Specification, section 1, "Version considerations".
 */
export function selectVersion(named: readonly string[]): CniVersion | undefined {
  const candidates = named.filter((version) => version !== "");
  if (candidates.length === 0) return "0.1.0";
  return cniVersions.findLast((version) => candidates.includes(version));
}
