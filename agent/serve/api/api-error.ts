export interface ApiErrorOptions extends ErrorOptions {
  /** Headers of the answer, besides its type and length. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** The HTTP status and the text of an answer that reports an error. Clients such as kubectl print the text. */
export class ApiError extends Error {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(status: number, message: string, { headers = {}, ...options }: ApiErrorOptions = {}) {
    super(message, options);
    this.name = "ApiError";
    this.status = status;
    this.headers = headers;
  }
}
