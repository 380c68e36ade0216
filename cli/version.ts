/** Set by the build; a run from source has neither. */
declare const BERTH_VERSION: string | undefined;
declare const BERTH_COMMIT: string | undefined;

/** `berth 0.1.0 (1a2b3c4d5e6f)` */
export function versionLine(): string {
  const version = typeof BERTH_VERSION === "string" ? BERTH_VERSION : "from source";
  const commit = typeof BERTH_COMMIT === "string" ? ` (${BERTH_COMMIT})` : "";
  return `berth ${version}${commit}\n`;
}
