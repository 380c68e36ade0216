import type { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";

/** One remote procedure: its CRI name, its gRPC path, and how its messages become bytes and back. */
export interface Verb<Request, Response> {
  readonly name: string;
  readonly path: string;
  readonly encode: (request: Request) => Buffer;
  readonly decode: (bytes: Buffer) => Response;
  /** Metadata that goes with every request. */
  readonly metadata?: Readonly<Record<string, string>>;
}

interface Codec<Message> {
  encode(message: Message): BinaryWriter;
  decode(bytes: BinaryReader | Uint8Array): Message;
}

/** Declares a verb of one gRPC service, e.g. `runtime.v1.RuntimeService`. */
export function verbOf<Request, Response>(
  service: string,
  name: string,
  request: Codec<Request>,
  response: Codec<Response>,
): Verb<Request, Response> {
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

export const runtimeVerb = <Request, Response>(name: string, request: Codec<Request>, response: Codec<Response>) =>
  verbOf("runtime.v1.RuntimeService", name, request, response);

export const imageVerb = <Request, Response>(name: string, request: Codec<Request>, response: Codec<Response>) =>
  verbOf("runtime.v1.ImageService", name, request, response);
