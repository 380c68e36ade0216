import type { VerbKind } from "./adapter-verbs.ts";

/** An adapter as an agent of the harness gets it. */
export interface Seam<Adapter extends object> {
  /** The name in messages: `runtime`. */
  readonly name: string;
  readonly adapter: Adapter;
  /** The adapter's own table of its methods. */
  readonly verbs: Readonly<Record<string, VerbKind>>;
  /** What a call is about: `default/web/a #0`. Called before the call takes effect. */
  readonly subjectOf: (verb: string, args: readonly unknown[]) => string;
}

/** One agent on the node, from its start to its stop or death. */
export interface AgentLifetime {
  /** Aborts when the agent stops or dies. */
  readonly signal: AbortSignal;
  end(): void;
  /**
   * Wraps an adapter: calls of a dead agent have no effect and never return; its last call takes effect and never
   * returns. A method that its table of verbs does not contain throws, and fails the test.
   */
  wrap<Adapter extends object>(seam: Seam<Adapter>): Adapter;
}

export interface Deaths {
  /** The number of mutating calls so far, by all agents. */
  readonly mutatingCalls: number;
  beginLifetime(): AgentLifetime;
  /** Throws if an agent has called a method that its table of verbs does not contain. */
  throwIfUnknownVerb(): void;
}

export interface DeathsOptions {
  /** The agent dies right after this mutating call, counted from 0; it never dies if left out. */
  readonly dieAfterCall: number | undefined;
  /** Kills the agent that made this call, and starts the next one. */
  readonly onDeath: (call: string) => void;
}

const never = new Promise<never>(() => {});

/** Counts the mutating calls of all agents of a node, and lets one agent die. */
export function createDeaths({ dieAfterCall, onDeath }: DeathsOptions): Deaths {
  let mutatingCalls = 0;
  let unknownVerb: Error | undefined;

  const mutate = async (call: string, signal: AbortSignal, work: () => unknown) => {
    if (signal.aborted) return await never;
    const isLast = mutatingCalls++ === dieAfterCall;
    try {
      const result = await work();
      if (!isLast && !signal.aborted) return result;
    } catch (error) {
      if (!isLast && !signal.aborted) throw error;
    }
    if (isLast) onDeath(call);
    return await never;
  };

  const rejectUnknown = (call: string) => {
    unknownVerb ??= new Error(
      `${call} is not in the adapter's table of verbs: say there whether it mutates, reads, follows or computes`,
    );
    throw unknownVerb;
  };

  const callOf = <Adapter extends object>(seam: Seam<Adapter>, verb: string, signal: AbortSignal) => {
    const { name, adapter, verbs, subjectOf } = seam;
    return (...args: unknown[]): unknown => {
      const work = () => (Reflect.get(adapter, verb) as (...input: unknown[]) => unknown).apply(adapter, args);
      const kind = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined;
      switch (kind) {
        case undefined:
          return rejectUnknown(`${name}.${verb}`);
        case "mutates":
          return mutate(`${name}.${verb} ${subjectOf(verb, args)}`, signal, work);
        case "reads":
        case "follows":
          return signal.aborted ? never : work();
        case "computes":
          return work();
      }
    };
  };

  return {
    get mutatingCalls() {
      return mutatingCalls;
    },
    beginLifetime() {
      const controller = new AbortController();
      const { signal } = controller;
      return {
        signal,
        end: () => controller.abort(),
        wrap: (seam) =>
          new Proxy(seam.adapter, {
            get: (target, name) => {
              const value: unknown = Reflect.get(target, name);
              return typeof value === "function" && typeof name === "string" ? callOf(seam, name, signal) : value;
            },
          }),
      };
    },
    throwIfUnknownVerb() {
      if (unknownVerb !== undefined) throw unknownVerb;
    },
  };
}
