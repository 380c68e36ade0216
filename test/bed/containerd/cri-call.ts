import { Client, credentials } from "@grpc/grpc-js";

/** A message of the generated codec. */
interface Message<T> {
  encode(value: T): { finish(): Uint8Array };
  decode(bytes: Uint8Array): T;
}

/**
 * Makes one CRI call without the product's client, for tests that must not depend on the code under test. `method` is
 * the service and the verb, such as `RuntimeService/RunPodSandbox`. Rejects with the error of grpc-js.
 */
export async function callCri<Request, Response>(
  endpoint: string,
  method: string,
  request: readonly [Message<Request>, Request],
  response: Message<Response>,
): Promise<Response> {
  const client = new Client(endpoint, credentials.createInsecure());
  try {
    return await new Promise<Response>((resolve, reject) => {
      const encode = (value: Request) => Buffer.from(request[0].encode(value).finish());
      client.makeUnaryRequest(`/runtime.v1.${method}`, encode, response.decode, request[1], (error, answer) => {
        if (error !== null) reject(error);
        else if (answer !== undefined) resolve(answer);
      });
    });
  } finally {
    client.close();
  }
}
