import { rm } from "node:fs/promises";
import {
  Server,
  ServerCredentials,
  type ServerUnaryCall,
  type ServerWritableStream,
  type sendUnaryData,
} from "@grpc/grpc-js";

type Bytes = Buffer;
export type UnaryResponder = (call: ServerUnaryCall<Bytes, Bytes>, answer: sendUnaryData<Bytes>) => void;
export type StreamResponder = (call: ServerWritableStream<Bytes, Bytes>) => void;

export interface CriServer {
  /** Closes all connections at once and removes the socket. */
  kill(): Promise<void>;
}

/**
 * Starts a gRPC server on a unix socket that answers with arbitrary bytes. The keys of `unary` and `streams` are paths
 * such as `/runtime.v1.RuntimeService/Version`; any other path is answered with UNIMPLEMENTED.
 */
export async function startCriServer(
  socketPath: string,
  unary: Readonly<Record<string, UnaryResponder>>,
  streams: Readonly<Record<string, StreamResponder>> = {},
): Promise<CriServer> {
  const server = new Server({ "grpc.max_send_message_length": -1 });
  const identity = (bytes: Bytes) => bytes;
  const codec = {
    requestSerialize: identity,
    requestDeserialize: identity,
    responseSerialize: identity,
    responseDeserialize: identity,
  };
  for (const [path, answer] of Object.entries(unary))
    server.addService({ answer: { path, requestStream: false, responseStream: false, ...codec } }, { answer });
  for (const [path, answer] of Object.entries(streams))
    server.addService({ answer: { path, requestStream: false, responseStream: true, ...codec } }, { answer });
  await new Promise<void>((resolve, reject) => {
    const credentials = ServerCredentials.createInsecure();
    server.bindAsync(`unix://${socketPath}`, credentials, (error) => (error === null ? resolve() : reject(error)));
  });
  return {
    async kill() {
      server.forceShutdown();
      await rm(socketPath, { force: true });
    },
  };
}
