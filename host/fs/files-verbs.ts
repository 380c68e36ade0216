import type { VerbsOf } from "../adapter-verbs.ts";
import type { Files } from "./files.ts";

export const filesVerbs = {
  path: "computes",
  read: "reads",
  readEnd: "reads",
  readBeneath: "reads",
  makeFile: "mutates",
  write: "mutates",
  stat: "reads",
  list: "reads",
  makeFolder: "mutates",
  rename: "mutates",
  link: "mutates",
  readLink: "reads",
  remove: "mutates",
  space: "reads",
  watch: "follows",
} as const satisfies VerbsOf<Files>;
