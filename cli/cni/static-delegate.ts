/** The program in base64. A build on a machine with a C compiler defines it; other builds and runs from source do not. */
declare const BERTH_STATIC_DELEGATE: string | undefined;

/** The static form of the plugin `berth-cni` for this processor; undefined if this program was built without a C compiler. */
export function staticDelegate(): Uint8Array | undefined {
  return typeof BERTH_STATIC_DELEGATE === "string" ? Buffer.from(BERTH_STATIC_DELEGATE, "base64") : undefined;
}
