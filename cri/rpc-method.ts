/** One gRPC method: its CRI name, its path, and the codec of its messages. */
export interface RpcMethod<Request, Response> {
  readonly name: string;
  readonly path: string;
  readonly encode: (request: Request) => Buffer;
  readonly decode: (bytes: Buffer) => Response;
  /** Metadata for every request. */
  readonly metadata?: Readonly<Record<string, string>>;
}

interface Codec<Message> {
  encode(message: Message): { finish(): Uint8Array };
  decode(bytes: Uint8Array): Message;
}

/** Declares a method of a gRPC service, e.g. `runtime.v1.RuntimeService`. */
export function rpcMethod<Request, Response>(
  service: string,
  name: string,
  request: Codec<Request>,
  response: Codec<Response>,
): RpcMethod<Request, Response> {
  return {
    name,
    path: `/${service}/${name}`,
    encode(message) {
      const { buffer, byteOffset, byteLength } = request.encode(message).finish();
      return Buffer.from(buffer, byteOffset, byteLength);
    },
    decode: (bytes) => response.decode(bytes),
  };
}

export const runtimeMethod = <Request, Response>(name: string, request: Codec<Request>, response: Codec<Response>) =>
  rpcMethod("runtime.v1.RuntimeService", name, request, response);

export const imageMethod = <Request, Response>(name: string, request: Codec<Request>, response: Codec<Response>) =>
  rpcMethod("runtime.v1.ImageService", name, request, response);
