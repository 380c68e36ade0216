/**
 * The JSON of a `metav1.Status` for a session that failed for another reason than its command. Rule: NewInternalError of
 * apimachinery.
 */
export function internalErrorStatus(text: string): Buffer {
  return Buffer.from(
    JSON.stringify({
      metadata: {},
      status: "Failure",
      message: `Internal error occurred: ${text}`,
      reason: "InternalError",
      details: { causes: [{ message: text }] },
      code: 500,
    }),
  );
}
