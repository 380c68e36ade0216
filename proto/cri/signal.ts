import type { Signal as SignalName } from "../kubernetes/gen/types.ts";
import { Signal } from "./gen/api.ts";

/** A signal of a pod as the CRI counts it: `SIGRTMIN+3` is `SIGRTMINPLUS3` there. One that it does not know is the image's own choice. */
export function criSignalOf(name: string): Signal {
  const key = name.replace("+", "PLUS").replace("-", "MINUS");
  return Object.entries(Signal).find(([each]) => each === key)?.[1] ?? Signal.RUNTIME_DEFAULT;
}

/** The name of a signal that the CRI tells; undefined where it tells none, or one that a newer runtime may know. */
export function signalNameOf(signal: number): SignalName | undefined {
  const key = Object.entries(Signal).find(([, value]) => value === signal)?.[0];
  if (key === undefined || signal === Signal.RUNTIME_DEFAULT) return undefined;
  return key.replace("PLUS", "+").replace("MINUS", "-") as SignalName;
}
