import fc from "fast-check";
import goldenDefaults from "../golden/pod-defaults.json" with { type: "json" };
import goldenErrors from "../golden/pod-errors.json" with { type: "json" };

const keys = ["name", "spec", "containers", "image", "ports", "resources", "limits", "cpu", "volumes", "emptyDir", "x"];

/** Any JSON value, extreme ones more often. */
export const arbitraryJson = fc.oneof(fc.jsonValue(), fc.constantFrom("", -1, 1e99, 0.5, "1Gi", null, {}, []));

/** A pod of the golden data in which the value at one random path is replaced. */
export const mutatedPod: fc.Arbitrary<unknown> = fc
  .tuple(
    fc.constantFrom(...[...goldenDefaults, ...goldenErrors].map(({ pod }) => JSON.stringify(pod))),
    fc.array(fc.nat(), { maxLength: 8 }),
    arbitraryJson,
  )
  .map(([base, path, replacement]) => mutate(JSON.parse(base), path, replacement));

/** A valid pod of the golden data, with other labels and another restart policy. */
export const validPod: fc.Arbitrary<unknown> = fc
  .tuple(
    fc.constantFrom(...goldenDefaults.map(({ pod }) => JSON.stringify(pod))),
    fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), fc.stringMatching(/^[a-z0-9]{0,8}$/), { maxKeys: 3 }),
    fc.constantFrom("Always", "OnFailure", "Never"),
  )
  .map(([base, labels, restartPolicy]) => {
    const pod = JSON.parse(base) as { readonly metadata?: object; readonly spec?: object };
    return { ...pod, metadata: { ...pod.metadata, labels }, spec: { ...pod.spec, restartPolicy } };
  });

/** Returns the JSON value with the value at one path replaced; each number of `path` selects a key or an index. */
function mutate(value: unknown, path: readonly number[], replacement: unknown): unknown {
  const [step, ...rest] = path;
  if (step === undefined || typeof value !== "object" || value === null) return replacement;
  if (Array.isArray(value))
    return value.map((item, index) => (index === step % value.length ? mutate(item, rest, replacement) : item));
  const names = Object.keys(value);
  const key = names[step % (names.length + 1)] ?? keys[step % keys.length] ?? "";
  return { ...value, [key]: mutate((value as Record<string, unknown>)[key], rest, replacement) };
}
