/** The code and the text of an answer that is no success. The text ends up in the client's terminal, as the kubelet's does. */
export class ApiError extends Error {
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "ApiError";
    this.status = status;
  }
}
