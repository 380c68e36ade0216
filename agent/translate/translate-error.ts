/** A pod that cannot be translated to CRI. `reason` is Kubernetes' reason for the waiting container or the Event. */
export class TranslateError extends Error {
  override readonly name = "TranslateError";
  readonly reason:
    | "CreateContainerConfigError"
    | "CreateContainerError"
    | "ConfigPodSandboxError"
    | "CreatePodSandboxError"
    | "ErrImagePull"
    | "FailedMapVolume"
    | "FailedMount"
    | "ProbeError"
    | "ResizePodInPlaceError";
  constructor(reason: TranslateError["reason"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.reason = reason;
  }
}

/** The error of a container whose configuration is invalid or incomplete. */
export function configError(message: string): TranslateError {
  return new TranslateError("CreateContainerConfigError", message);
}
