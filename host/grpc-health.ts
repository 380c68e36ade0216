import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import { Client, status as codes, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { DialError, type DialOptions } from "./dial.ts";

/**
 * Asks a server by gRPC's health checking protocol, without TLS, on a connection of its own. Returns the number of its serving status.
 * Rejects with `DialError`: `ETIMEDOUT` where nobody answers, and the name of the gRPC code (`UNIMPLEMENTED`) for an answer that is
 * an error.
 */
export async function checkGrpcHealth(
  host: string,
  port: number,
  { service, userAgent }: { readonly service: string; readonly userAgent: string },
  { timeoutMs, signal }: DialOptions,
): Promise<number> {
  if (signal.aborted) throw new DialError("CANCELLED", "given up");
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const client = new Client(address, credentials.createInsecure(), {
    "grpc.primary_user_agent": userAgent,
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_channelz": 0,
    "grpc.enable_retries": 0,
    "grpc.enable_http_proxy": 0,
  });
  let giveUp = () => {};
  try {
    return await new Promise<number>((resolve, reject) => {
      // It waits for the connection: who refuses it now may take it before the time is over, as with the kubelet.
      const metadata = new Metadata({ waitForReady: true });
      const options = { deadline: Date.now() + timeoutMs };
      const call = client.makeUnaryRequest(
        CHECK_PATH,
        encodeHealthCheckRequest,
        decodeHealthCheckResponse,
        service,
        metadata,
        options,
        (error, answer) => (error ? reject(toDialError(error)) : resolve(answer ?? 0)),
      );
      giveUp = () => call.cancel();
      signal.addEventListener("abort", giveUp, { once: true });
    });
  } finally {
    // The signal outlives the call: it lives as long as whoever is asked.
    signal.removeEventListener("abort", giveUp);
    client.close();
  }
}

function toDialError(error: ServiceError): DialError {
  const code = error.code === codes.DEADLINE_EXCEEDED ? "ETIMEDOUT" : (codes[error.code] ?? "UNKNOWN");
  return new DialError(code, error.details, { cause: error });
}

/*
 * The one call of gRPC's health checking protocol that a probe needs, by hand: two messages of one field each.
 * https://github.com/grpc/grpc/blob/master/doc/health-checking.md
 */

const CHECK_PATH = "/grpc.health.v1.Health/Check";

/** The names of `ServingStatus`, by number. */
export const servingStatuses = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"] as const;

/** `HealthCheckRequest`: the service asked about; empty for the server as a whole. */
function encodeHealthCheckRequest(service: string): Buffer {
  const writer = new BinaryWriter();
  if (service !== "") writer.uint32(10).string(service);
  return Buffer.from(writer.finish());
}

/** `HealthCheckResponse`: its status as a number; 0 where it is not said. Throws for bytes that are no message. */
function decodeHealthCheckResponse(bytes: Uint8Array): number {
  const reader = new BinaryReader(bytes);
  let status = 0;
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag >>> 3 === 1) status = reader.int32();
    else reader.skip(tag & 7);
  }
  return status;
}
