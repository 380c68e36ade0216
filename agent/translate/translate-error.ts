/** A pod that cannot be put into the runtime's words; `reason` is Kubernetes'. */
export class TranslateError extends Error {
  override readonly name = "TranslateError";
  readonly reason:
    | "CreateContainerConfigError"
    | "CreateContainerError"
    | "ConfigPodSandboxError"
    | "CreatePodSandboxError"
    | "ErrImagePull"
    | "FailedMount"
    | "ProbeError";
  constructor(reason: TranslateError["reason"], message: string) {
    super(message);
    this.reason = reason;
  }
}
