import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";

/** Starts a gRPC health server on any free port of `host`, an address as in a URL. */
export async function serveHealth(
  host: string,
  isServing: () => boolean,
): Promise<{ readonly port: number; readonly end: () => void }> {
  const server = new Server();
  const asIs = (value: Buffer) => value;
  const check = {
    path: "/grpc.health.v1.Health/Check",
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  } as const;
  const answer = (_: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) =>
    done(null, Buffer.from([8, isServing() ? 1 : 2]));
  server.addService({ check }, { check: answer });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync(`${host}:0`, ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  return { port, end: () => server.forceShutdown() };
}
