/** How a failure of an action is reported; users, controllers and dashboards rely on the reasons. */
export interface FailureTraits {
  /** The kubelet's reason. */
  readonly reason: string;
  /** Always use `reason`, even for an error with a reason of its own. */
  readonly hasOnlyThisReason?: true;
  /** Reasons that runtimes write at the start of their message. The CRI has no field for them (KEP-4622). */
  readonly runtimeReasons?: readonly string[];
  /**
   * The kubelet's message, letter for letter, because users search for it: gRPC's text "rpc error: code = …", or the
   * runtime's alone.
   */
  readonly runtimeText: "rpc error" | "details" | "details if UNKNOWN";
  readonly messagePrefix?: string;
  /** Advice that is appended to a failure message that matches its pattern. */
  readonly cures?: readonly { readonly pattern: RegExp; readonly text: string }[];
  /** A `TranslateError` keeps its message without the prefix. */
  readonly omitsPrefixForTranslateErrors?: true;
  /** Image pulls have a back-off of their own; updates of volumes and writes of the pod's cgroup share another. */
  readonly backoff?: "pull" | "volume";
  /** Only another action of the same key clears the failures. */
  readonly isKeptBySuccess?: true;
}
