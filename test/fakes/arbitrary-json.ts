import fc from "fast-check";
import goldenDefaults from "../golden/pod-defaults.json" with { type: "json" };
import goldenErrors from "../golden/pod-errors.json" with { type: "json" };

const keys = ["name", "spec", "containers", "image", "ports", "resources", "limits", "cpu", "volumes", "emptyDir", "x"];

/** Any JSON value. */
export const oddJson = fc.oneof(fc.jsonValue(), fc.constantFrom("", -1, 1e99, 0.5, "1Gi", null, {}, []));

/** A pod of which one place, somewhere, is something else. */
export const oddPod: fc.Arbitrary<unknown> = fc
  .tuple(
    fc.constantFrom(...[...goldenDefaults, ...goldenErrors].map(({ pod }) => JSON.stringify(pod))),
    fc.array(fc.nat(), { maxLength: 8 }),
    oddJson,
  )
  .map(([base, path, replacement]) => mutate(JSON.parse(base), path, replacement));

/** The JSON value with one place of it replaced. */
function mutate(value: unknown, path: readonly number[], replacement: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined || typeof value !== "object" || value === null) return replacement;
  if (Array.isArray(value))
    return value.map((item, index) => (index === step % value.length ? mutate(item, rest, replacement) : item));
  const names = Object.keys(value);
  const key = names[step % (names.length + 1)] ?? keys[step % keys.length] ?? "";
  return { ...value, [key]: mutate((value as Record<string, unknown>)[key], rest, replacement) };
}
