import { Client, credentials } from "@grpc/grpc-js";

/** A message of the generated codec. */
interface Message<T> {
  encode(value: T): { finish(): Uint8Array };
  decode(bytes: Uint8Array): T;
}

/**
 * One bare call to a runtime, for tests that must not depend on the client they would otherwise test with. `method` is
 * the service and the verb, such as `RuntimeService/RunPodSandbox`. Rejects with grpc-js' own error.
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
