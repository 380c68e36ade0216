import { connect, createServer, type Server, type Socket } from "node:net";

/** A TCP proxy between a server on 127.0.0.1 and its clients that simulates network faults. */
export interface Relay {
  readonly port: number;
  /** Sets the latency of each byte, in each direction. */
  delay(latencyMs: number): void;
  /** Holds all data back, in both directions. Connections stay open and new ones are accepted. */
  stall(): void;
  /** Ends {@link stall} and delivers the data held back. */
  resume(): void;
  /**
   * Drops all further data of the open connections, but keeps them open. New connections work. Returns their number.
   */
  blackhole(): number;
  /** Resets all connections by RST. Returns their number. */
  reset(): number;
  /** Resets each connection once it has delivered this many bytes of the server; undefined disables that. */
  resetAfter(bytes: number | undefined): void;
  close(): Promise<void>;
}

interface NetworkConditions {
  latencyMs: number;
  isStalled: boolean;
  resetAfter: number | undefined;
}

/** Starts a relay to `targetPort` of 127.0.0.1. */
export async function startRelay(targetPort: number, latencyMs = 0): Promise<Relay> {
  const conditions: NetworkConditions = { latencyMs, isStalled: false, resetAfter: undefined };
  const connections = new Set<ProxiedConnection>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const connection = connectSockets(
      client,
      connect({ port: targetPort, host: "127.0.0.1", allowHalfOpen: true }),
      conditions,
    );
    connections.add(connection);
    client.once("close", () => connections.delete(connection));
  });
  return {
    port: await listen(server),
    delay(ms) {
      conditions.latencyMs = ms;
    },
    stall() {
      conditions.isStalled = true;
    },
    resume() {
      conditions.isStalled = false;
      for (const connection of connections) connection.deliver();
    },
    blackhole() {
      const { size } = connections;
      for (const connection of connections) connection.blackhole();
      return size;
    },
    reset() {
      const { size } = connections;
      for (const connection of [...connections]) connection.reset();
      return size;
    },
    resetAfter(bytes) {
      conditions.resetAfter = bytes;
    },
    async close() {
      for (const connection of [...connections]) connection.reset();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface ProxiedConnection {
  deliver(): void;
  blackhole(): void;
  reset(): void;
}

function connectSockets(client: Socket, target: Socket, conditions: NetworkConditions): ProxiedConnection {
  const reset = () => {
    client.resetAndDestroy();
    target.resetAndDestroy();
  };
  let isBlackholed = false;
  const isStalled = () => conditions.isStalled || isBlackholed;
  const up = pipeWithLatency(client, target, { conditions, isStalled }, () => undefined);
  let delivered = 0;
  const down = pipeWithLatency(target, client, { conditions, isStalled }, (chunk) => {
    const remainingBytes = (conditions.resetAfter ?? Number.POSITIVE_INFINITY) - delivered;
    delivered += chunk.length;
    if (chunk.length < remainingBytes) return undefined;
    return { part: chunk.subarray(0, Math.max(0, remainingBytes)), after: reset };
  });
  // An error of one side resets both. A relay needs no reason for it.
  for (const socket of [client, target]) socket.on("error", reset);
  return {
    deliver() {
      up();
      down();
    },
    blackhole() {
      isBlackholed = true;
    },
    reset,
  };
}

type CutChunk = (chunk: Buffer) => { readonly part: Buffer; readonly after: () => void } | undefined;

interface PipeOptions {
  readonly conditions: NetworkConditions;
  readonly isStalled: () => boolean;
}

/**
 * Forwards bytes from one socket to the other, in order. Returns a function that retries the delivery of queued chunks.
 */
function pipeWithLatency(from: Socket, to: Socket, { conditions, isStalled }: PipeOptions, cut: CutChunk): () => void {
  const waiting: { readonly due: number; readonly chunk: Buffer | undefined }[] = [];
  const deliver = () => {
    while (!isStalled()) {
      const [first] = waiting;
      if (first === undefined) return;
      const remainingMs = first.due - performance.now();
      if (remainingMs > 0) {
        setTimeout(deliver, remainingMs);
        return;
      }
      waiting.shift();
      send(to, first.chunk, cut);
    }
  };
  const enqueue = (chunk: Buffer | undefined) => {
    waiting.push({ due: performance.now() + conditions.latencyMs, chunk });
    deliver();
  };
  from.on("data", enqueue);
  from.on("end", () => enqueue(undefined));
  return deliver;
}

function send(to: Socket, chunk: Buffer | undefined, cut: CutChunk): void {
  if (to.destroyed) return;
  if (chunk === undefined) {
    to.end();
    return;
  }
  const end = cut(chunk);
  if (end === undefined) to.write(chunk);
  else to.write(end.part, end.after);
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the kernel gave no port");
  return address.port;
}
