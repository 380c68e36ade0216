import { utf8Length } from "../../../proto/utf8.ts";
import { configError, TranslateError } from "../translate-error.ts";

/** Replaces `$(NAME)` for a known name, and `$$` by `$`. Leaves everything else unchanged. */
export type Expand = (text: string, environment: ReadonlyMap<string, string>) => string;

/** Counts the bytes that one process receives. Both functions throw `TranslateError` above the kernel's limit. */
export interface BoundedExpander {
  /** Counts a text and returns it unchanged. */
  readonly add: (text: string) => string;
  readonly expand: Expand;
}

/** execve(2): arguments and environment may take up to three quarters of the kernel's 8 MiB reference stack. */
const MAX_BYTES = 6 * 1024 * 1024;

/**
 * Creates the expander of one container. Nested references grow exponentially: when each variable uses the one before
 * it twice, a few lines exceed the memory of the machine. So the limit of execve(2) is enforced before any text is
 * built.
 */
export function createBoundedExpander(container: string, reason: TranslateError["reason"]): BoundedExpander {
  let remainingBytes = MAX_BYTES;
  const add = (text: string) => {
    remainingBytes -= utf8Length(text);
    if (remainingBytes >= 0) return text;
    throw new TranslateError(
      reason,
      `container ${container}: command, args and env are larger than ${MAX_BYTES} bytes together, which no process can be given`,
    );
  };
  return { add, expand: (text, environment) => expandVariables(add(text), (name) => environment.get(name), add) };
}

/** Expands a text each of whose variables must have a value. Throws `TranslateError` for those that have none. */
export function expandWithAll(text: string, environment: ReadonlyMap<string, string>): string {
  const missing = new Set<string>();
  const lookup = (name: string) => {
    const value = environment.get(name) ?? "";
    if (value === "") missing.add(name);
    return value;
  };
  const expanded = expandVariables(text, lookup, (value) => value);
  if (missing.size > 0) throw configError(`missing value for ${[...missing].toSorted().join(", ")}`);
  return expanded;
}

/**
 * Hand-written, since a regular expression would search to the end of the text for each unclosed `$(`: quadratic time.
 */
function expandVariables(
  text: string,
  lookup: (name: string) => string | undefined,
  add: BoundedExpander["add"],
): string {
  const lastEnd = text.lastIndexOf(")");
  const parts: string[] = [];
  let from = 0;
  for (let at = text.indexOf("$"); at >= 0; at = text.indexOf("$", from)) {
    parts.push(text.slice(from, at));
    const next = text[at + 1];
    const end = next === "(" && at < lastEnd ? text.indexOf(")", at) : -1;
    from = end >= 0 ? end + 1 : next === "$" ? at + 2 : at + 1;
    const value = end >= 0 ? lookup(text.slice(at + 2, end)) : undefined;
    if (value !== undefined) parts.push(add(value));
    else parts.push(next === "$" ? "$" : text.slice(at, from));
  }
  return [...parts, text.slice(from)].join("");
}
