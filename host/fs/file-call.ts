import type { GroupChange } from "./change-group.ts";
import type { BindOptions } from "./mounts.ts";

/** The command of Berth's own program that makes one call on files: `file-call '["stat","/mnt/nas"]'`. It is for the agent alone. */
export const FILE_CALL = "file-call";

/** The argument of the command, as JSON: a method of `NetworkFiles` and what it takes. */
export type FileCall =
  | readonly ["stat" | "realPath" | "unmount", path: string]
  | readonly ["makeFolder" | "makeEmptyFile", path: string, mode: number]
  | readonly ["changeGroup", path: string, change: Omit<GroupChange, "signal" | "onProgress">]
  | readonly ["bind", source: string, target: string, options: BindOptions]
  | readonly ["bindBeneath", folder: string, path: string, target: string];

/** A `FilesError` as JSON. */
export interface FileCallFailure {
  readonly code: string;
  readonly path: string;
  readonly message: string;
}

/** What the command prints on stdout, one a line: how many files it has changed so far, and at last the outcome. */
export type FileCallOutput =
  | { readonly progress: number }
  | { readonly result?: unknown }
  | { readonly failure: FileCallFailure };
