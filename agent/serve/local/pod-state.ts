/**
 * The state of a pod in one word, as `berth pods`, `berth status` and `npm run up` show it: the most important reason, or the
 * phase where there is none. A pod whose containers have completed is `Succeeded`, or still `Running`.
 */
export function podState({ phase, reason }: { readonly phase: string; readonly reason: string }): string {
  return reason === "" || reason === "Completed" ? phase || "Unknown" : reason;
}
