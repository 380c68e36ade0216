import { createFieldTree } from "../fields/field-tree.ts";
import type { Field } from "./field.ts";
import { schema } from "./schema.ts";

/** The schema of KubeletConfiguration by path. */
export const configFields = createFieldTree<Field>(schema);

export const { fieldAt, childNames } = configFields;
