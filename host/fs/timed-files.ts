import type { Files } from "./files.ts";

/** Called when an operation begins; returns what to call once it has ended, whether it has succeeded or not. */
export type OnFileCall = (method: string, path: string) => () => void;

/** What takes no time, or has no end. */
const untimed: ReadonlySet<string | symbol> = new Set<keyof Files>(["path", "watch"]);

/** The same files. Each operation that takes time is reported to `onCall`. */
export function withFileCalls(files: Files, onCall: OnFileCall): Files {
  return new Proxy(files, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== "function" || untimed.has(name)) return member;
      return (...input: readonly unknown[]) => {
        const onEnded = onCall(String(name), String(input[0]));
        const result: unknown = Reflect.apply(member, target, input);
        return result instanceof Promise ? result.finally(onEnded) : result;
      };
    },
  });
}
