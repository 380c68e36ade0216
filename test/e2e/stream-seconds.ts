// How fast pods send and receive once the burst that a runtime asks for is spent.
import { pollUntil } from "../bed/poll-until.ts";

/** The bytes before the measurement: more than the burst of 2^32 - 1 bits. */
const BURST_BYTES = 600_000_000;
/** The measured bytes: more than the buffers on the way hold. */
const MEASURED_BYTES = 30_000_000;
const LIMIT_MS = 300_000;

/** Resolves with the seconds that a pod takes to send 30 MB from its port 9000. */
export async function secondsToReceive(address: string): Promise<number> {
  const stopwatch = createStopwatch();
  const socket = await connect(address, 9000, { data: (_socket, bytes) => void stopwatch.add(bytes.length) });
  return await stopwatch.seconds().finally(() => socket.terminate());
}

/** Resolves with the seconds that a pod takes to receive 30 MB at its port 9001. */
export async function secondsToSend(address: string): Promise<number> {
  const stopwatch = createStopwatch();
  const chunk = new Uint8Array(1 << 18);
  const fill = (socket: Pick<Bun.Socket, "write">) => {
    for (let written = socket.write(chunk); written > 0; written = socket.write(chunk)) {
      if (stopwatch.add(written)) return;
      if (written < chunk.length) return;
    }
  };
  const socket = await connect(address, 9001, { drain: fill, data: () => undefined });
  fill(socket);
  return await stopwatch.seconds().finally(() => socket.terminate());
}

/** The server of a container that has just started may not listen yet. */
const connect = (hostname: string, port: number, socket: Bun.SocketHandler) =>
  pollUntil(`a server at ${hostname}:${port}`, 30_000, () =>
    // The next try reports a refusal that lasts.
    Bun.connect({ hostname, port, socket }).catch(() => undefined),
  );

/** Measures how long the bytes after the burst take. `seconds` rejects if they do not pass within five minutes. */
function createStopwatch() {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const timer = setTimeout(() => reject(new Error(`${passed} bytes have passed within ${LIMIT_MS} ms`)), LIMIT_MS);
  let passed = 0;
  let startedMs: number | undefined;
  return {
    /** Counts bytes. True after the last one. */
    add(bytes: number): boolean {
      passed += bytes;
      if (passed >= BURST_BYTES) startedMs ??= performance.now();
      const isOver = passed >= BURST_BYTES + MEASURED_BYTES;
      if (isOver) resolve((performance.now() - (startedMs ?? 0)) / 1000);
      return isOver;
    },
    seconds: () => promise.finally(() => clearTimeout(timer)),
  };
}
