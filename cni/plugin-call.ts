export type CniVerb = "ADD" | "DEL" | "CHECK" | "STATUS" | "GC";

/** One call of one plugin of a chain, as the specification's section 3 has it. */
export interface PluginCall {
  readonly verb: CniVerb;
  readonly containerId: string;
  /** A path of a network namespace; empty where DEL has none, and for STATUS and GC. */
  readonly netns: string;
  readonly ifName: string;
  readonly args: ReadonlyMap<string, string>;
  /** The plugin's configuration: with `cniVersion`, `name`, `runtimeConfig`, `prevResult` and `cni.dev/valid-attachments`, as a binary would read it. */
  readonly conf: Readonly<Record<string, unknown>>;
  /** What the plugin declares; a binary does not get it. */
  readonly capabilities?: readonly string[];
}

/** A plugin inside this process, by its `type`. Resolves with the result of ADD as JSON of version 1.1.0; rejects with CniError. */
export interface InProcessPlugin {
  call(call: PluginCall, signal: AbortSignal): Promise<Readonly<Record<string, unknown>> | undefined>;
}
