import type { Signal as SignalName } from "../kubernetes/gen/types.ts";
import { Signal } from "./gen/api.ts";

/**
 * The CRI's number of a signal name: `SIGRTMIN+3` is `SIGRTMINPLUS3`. An unknown name gives RUNTIME_DEFAULT, the
 * image's own signal.
 */
export function toCriSignal(name: string): Signal {
  const key = name.replace("+", "PLUS").replace("-", "MINUS");
  return Object.entries(Signal).find(([each]) => each === key)?.[1] ?? Signal.RUNTIME_DEFAULT;
}

/** The API's name of a CRI signal; undefined for RUNTIME_DEFAULT, and for a signal of a newer runtime. */
export function fromCriSignal(signal: number): SignalName | undefined {
  const key = Object.entries(Signal).find(([, value]) => value === signal)?.[0];
  if (key === undefined || signal === Signal.RUNTIME_DEFAULT) return undefined;
  return key.replace("PLUS", "+").replace("MINUS", "-") as SignalName;
}
