/** The methods of `Files` that tests observe or make fail. */
export type FilesVerb =
  | "read"
  | "readEnd"
  | "readBeneath"
  | "open"
  | "gzip"
  | "makeFile"
  | "makeEmptyFile"
  | "write"
  | "stat"
  | "list"
  | "makeFolder"
  | "rename"
  | "link"
  | "readLink"
  | "realPath"
  | "changeGroup"
  | "remove";

/** Of a path that cannot exist these report that nothing is there; the others fail. */
export const absenceVerbs: readonly FilesVerb[] = ["stat", "list", "readLink", "realPath", "remove"];
/** These do not follow a symlink at the path itself. */
export const linkVerbs: readonly FilesVerb[] = [
  "makeFile",
  "write",
  "makeFolder",
  "rename",
  "link",
  "readLink",
  "remove",
];
/** On a mount that is read-only these fail. */
export const writeVerbs: readonly FilesVerb[] = [
  "gzip",
  "makeFile",
  "makeEmptyFile",
  "write",
  "makeFolder",
  "rename",
  "link",
  "remove",
];
