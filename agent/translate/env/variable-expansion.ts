import { utf8Length } from "../../../proto/utf8.ts";
import { TranslateError } from "../translate-error.ts";

/** Replaces `$(NAME)` where the name is known, and `$$` by `$`; anything else stays as it is. */
export type Expand = (text: string, environment: ReadonlyMap<string, string>) => string;

/** What one process is given, counted as it is put together. Both throw `TranslateError` once it is more than any process can have. */
export interface Portion {
  /** Takes a text as it is. */
  readonly take: (text: string) => string;
  readonly expand: Expand;
}

/** Three quarters of the largest stack that the kernel thinks of: the most that arguments and environment may be. See execve(2). */
const MOST_BYTES = 6 * 1024 * 1024;

/**
 * Variables that are made of others grow with each that uses the one before it twice: a pod of a few lines asks for more than this machine
 * has. So what is more than the kernel would take is refused before it is put together.
 */
export function createPortion(container: string, reason: TranslateError["reason"]): Portion {
  let left = MOST_BYTES;
  const take = (text: string) => {
    left -= utf8Length(text);
    if (left >= 0) return text;
    throw new TranslateError(
      reason,
      `container ${container}: command, args and env are larger than ${MOST_BYTES} bytes together, which no process can be given`,
    );
  };
  return { take, expand: (text, environment) => expandWith(take(text), (name) => environment.get(name), take) };
}

/** By hand, since a regular expression would look for the end of each of a thousand references that have none. */
function expandWith(text: string, known: (name: string) => string | undefined, take: Portion["take"]): string {
  const lastEnd = text.lastIndexOf(")");
  const parts: string[] = [];
  let from = 0;
  for (let at = text.indexOf("$"); at >= 0; at = text.indexOf("$", from)) {
    parts.push(text.slice(from, at));
    const next = text[at + 1];
    const end = next === "(" && at < lastEnd ? text.indexOf(")", at) : -1;
    from = end >= 0 ? end + 1 : next === "$" ? at + 2 : at + 1;
    const value = end >= 0 ? known(text.slice(at + 2, end)) : undefined;
    if (value !== undefined) parts.push(take(value));
    else parts.push(next === "$" ? "$" : text.slice(at, from));
  }
  return [...parts, text.slice(from)].join("");
}
