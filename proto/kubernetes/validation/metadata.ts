import { utf8Length } from "../../utf8.ts";
import type { ObjectMeta } from "../gen/types.ts";
import { errorIf, type FieldErrors } from "./checks.ts";
import { type FieldError, required, tooLong } from "./field-error.ts";
import { checkLabel, checkLabelValue, checkOptional, checkQualifiedName, checkSubdomain } from "./names.ts";

const MAX_ANNOTATION_BYTES = 256 * 1024;

/** Rule: apimachinery, ValidateObjectMeta. */
export function validateMetadata(metadata: ObjectMeta): FieldErrors {
  const { annotations = {}, finalizers = [], labels = {}, name, namespace } = metadata;
  return [
    ...(name ? checkSubdomain("metadata.name", name) : [required("metadata.name", "name or generateName is required")]),
    ...checkOptional("metadata.namespace", namespace, checkLabel),
    ...validateLabels("metadata.labels", labels),
    ...validateAnnotations(annotations),
    ...finalizers.flatMap((finalizer) => checkQualifiedName("metadata.finalizers", finalizer)),
  ];
}

/** Checks the keys and values of labels, or of a selector's `matchLabels`; each error names `field`. */
export function validateLabels(field: string, labels: Readonly<Record<string, string>>): FieldErrors {
  return Object.entries(labels).flatMap(([key, value]) => [
    ...checkQualifiedName(field, key),
    ...checkLabelValue(field, value),
  ]);
}

function validateAnnotations(annotations: Readonly<Record<string, string>>): readonly FieldError[] {
  const field = "metadata.annotations";
  const bytes = Object.entries(annotations).reduce(
    (sum, entry) => sum + utf8Length(entry[0]) + utf8Length(entry[1]),
    0,
  );
  return [
    ...Object.keys(annotations).flatMap((key) => checkQualifiedName(field, key.toLowerCase())),
    ...errorIf(bytes > MAX_ANNOTATION_BYTES, () => tooLong(field, MAX_ANNOTATION_BYTES)),
  ];
}
