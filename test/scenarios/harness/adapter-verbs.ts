/**
 * What a method of an adapter does. The scenarios read it: they let the agent die after every call that mutates, and a
 * dead agent gets no answer to a call unless it computes.
 *
 * - `mutates`: changes something outside the agent that outlives the agent.
 * - `reads`: changes nothing outside.
 * - `follows`: reports changes until a signal aborts.
 * - `computes`: makes no outside call.
 */
export type VerbKind = "mutates" | "reads" | "follows" | "computes";

/** The kind of every method of an adapter: an interface with a method that its table lacks does not compile. */
export type VerbsOf<Adapter> = {
  readonly [Verb in keyof Adapter as Adapter[Verb] extends (...args: never) => unknown ? Verb : never]: VerbKind;
};
