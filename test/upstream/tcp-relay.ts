import { connect, createServer, type Server, type Socket } from "node:net";

/** Stands between a server on 127.0.0.1 and its clients, and makes the network between them as bad as a test wants it. */
export interface Relay {
  readonly port: number;
  /** How long each byte is on its way from now on, in each direction. */
  delay(latencyMs: number): void;
  /** Nothing passes any more, in either direction, while connections stay open and new ones are accepted. */
  stall(): void;
  /** Ends {@link stall}: what has waited is delivered. */
  resume(): void;
  /** Nothing passes any more on the connections that are open, which stay so; new ones are as good as ever. Returns how many. */
  forget(): number;
  /** Breaks all connections with RST. Returns how many. */
  reset(): number;
  /** Breaks each connection with RST once so many bytes of the server have been delivered on it; undefined ends that. */
  resetAfter(bytes: number | undefined): void;
  close(): Promise<void>;
}

interface Weather {
  latencyMs: number;
  isStalled: boolean;
  resetAfter: number | undefined;
}

/** Starts a relay to `targetPort` of 127.0.0.1. */
export async function startRelay(targetPort: number, latencyMs = 0): Promise<Relay> {
  const weather: Weather = { latencyMs, isStalled: false, resetAfter: undefined };
  const links = new Set<Link>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const link = join(client, connect({ port: targetPort, host: "127.0.0.1", allowHalfOpen: true }), weather);
    links.add(link);
    client.once("close", () => links.delete(link));
  });
  return {
    port: await listen(server),
    delay(ms) {
      weather.latencyMs = ms;
    },
    stall() {
      weather.isStalled = true;
    },
    resume() {
      weather.isStalled = false;
      for (const link of links) link.deliver();
    },
    forget() {
      const { size } = links;
      for (const link of links) link.forget();
      return size;
    },
    reset() {
      const { size } = links;
      for (const link of [...links]) link.reset();
      return size;
    },
    resetAfter(bytes) {
      weather.resetAfter = bytes;
    },
    async close() {
      for (const link of [...links]) link.reset();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface Link {
  deliver(): void;
  forget(): void;
  reset(): void;
}

function join(client: Socket, target: Socket, weather: Weather): Link {
  const reset = () => {
    client.resetAndDestroy();
    target.resetAndDestroy();
  };
  let isForgotten = false;
  const isStalled = () => weather.isStalled || isForgotten;
  const up = lane(client, target, { weather, isStalled }, () => undefined);
  let delivered = 0;
  const down = lane(target, client, { weather, isStalled }, (chunk) => {
    const room = (weather.resetAfter ?? Number.POSITIVE_INFINITY) - delivered;
    delivered += chunk.length;
    if (chunk.length < room) return undefined;
    return { part: chunk.subarray(0, Math.max(0, room)), after: reset };
  });
  // Whatever breaks one side breaks the other; the reason is of no interest to a relay.
  for (const socket of [client, target]) socket.on("error", reset);
  return {
    deliver() {
      up();
      down();
    },
    forget() {
      isForgotten = true;
    },
    reset,
  };
}

type Cut = (chunk: Buffer) => { readonly part: Buffer; readonly after: () => void } | undefined;

interface LaneState {
  readonly weather: Weather;
  readonly isStalled: () => boolean;
}

/** Carries bytes from one side to the other, in order. Returns how to make it look again at what is waiting. */
function lane(from: Socket, to: Socket, { weather, isStalled }: LaneState, cut: Cut): () => void {
  const waiting: { readonly due: number; readonly chunk: Buffer | undefined }[] = [];
  const deliver = () => {
    while (!isStalled()) {
      const [first] = waiting;
      if (first === undefined) return;
      const early = first.due - performance.now();
      if (early > 0) {
        setTimeout(deliver, early);
        return;
      }
      waiting.shift();
      send(to, first.chunk, cut);
    }
  };
  const put = (chunk: Buffer | undefined) => {
    waiting.push({ due: performance.now() + weather.latencyMs, chunk });
    deliver();
  };
  from.on("data", put);
  from.on("end", () => put(undefined));
  return deliver;
}

function send(to: Socket, chunk: Buffer | undefined, cut: Cut): void {
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
