import type { Files } from "./files.ts";

/**
 * Called with the full path when an operation begins; returns what to call once its promise has settled, whether it has
 * succeeded or not.
 */
export type OnFileOperation = (name: string, path: string) => () => void;

/** What is no operation, or has no end. */
const unreported: ReadonlySet<string | symbol> = new Set<keyof Files>(["path", "watch"]);

/** Returns the same files, and reports each asynchronous operation to `onOperation`, except `watch`, which has no end. */
export function withOnOperation(files: Files, onOperation: OnFileOperation): Files {
  return new Proxy(files, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function" || unreported.has(name)) return member;
      return async (...input: readonly unknown[]): Promise<unknown> => {
        const onEnded = onOperation(String(name), target.path(String(input[0])));
        try {
          return await Reflect.apply(member, target, input);
        } finally {
          onEnded();
        }
      };
    },
  });
}
