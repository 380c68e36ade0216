import type { Duplex } from "node:stream";
import { onAbort } from "../../../host/async/abort.ts";
import type { Clock } from "../../../host/clock.ts";

export interface SessionLimits {
  readonly clock: Clock;
  /** Ends a session in which no byte has moved for this time. 0: never. */
  readonly idleTimeoutMs: number;
  /** Ends the session at once. */
  readonly signal: AbortSignal;
}

/** What a translation can do with the two connections of its session. */
export interface Session {
  toClient(bytes: Buffer): void;
  toBackend(bytes: Buffer): void;
  /** Sends nothing more to the client, and closes both connections when it has received everything. */
  endClient(): void;
  endBackend(): void;
  /** Stops reading from the client, or reads again. */
  holdClient(isHeld: boolean): void;
  /** The client has not taken what it was sent. */
  isClientBehind(): boolean;
}

/** What happens to the bytes of a session. */
export interface Translation {
  fromClient(bytes: Buffer): void;
  fromBackend(bytes: Buffer): void;
  /** The client sends no more. */
  onClientEnd(): void;
  /** The backend sends no more. */
  onBackendEnd(): void;
}

/** How long a connection may take to send the rest and to close, once its peer has ended. */
const LINGER_MS = 5_000;

/** Passes the bytes of both sides on as they are, and the end of each side, so that half-closed connections work. */
export function passThrough(session: Session): Translation {
  return {
    fromClient: session.toBackend,
    fromBackend: session.toClient,
    onClientEnd: session.endBackend,
    onBackendEnd: session.endClient,
  };
}

/**
 * Runs a session between a client and the runtime, both paused. It reads from each side only as fast as the other takes,
 * closes each side when the other has closed, and resolves when both are closed. `received` is what each side has sent
 * already.
 */
export function runSession(
  sides: { readonly client: Duplex; readonly backend: Duplex },
  received: { readonly client: Buffer; readonly backend: Buffer },
  translate: (session: Session) => Translation,
  { clock, idleTimeoutMs, signal }: SessionLimits,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const destroyBoth = () => {
    client.socket.destroy();
    backend.socket.destroy();
  };
  const idle = createIdleTimer(clock, idleTimeoutMs, destroyBoth);
  let hasClientEnded = false;
  let cancelLinger: (() => void) | undefined;
  /** Limits the rest of the session. A slow client first takes all that it was sent, however long that lasts. */
  const linger = () => {
    cancelLinger ??= clock.wakeAt(clock.now() + LINGER_MS, () => {
      cancelLinger = undefined;
      const { writableEnded, writableFinished } = client.socket;
      if (writableEnded && !writableFinished && !hasClientEnded) client.socket.once("finish", linger);
      else destroyBoth();
    });
  };
  const client = createSide(sides.client);
  const backend = createSide(sides.backend);
  const translation = translate({
    toClient: (bytes) => backend.forward(bytes, client),
    toBackend: (bytes) => client.forward(bytes, backend),
    endClient() {
      client.end();
      linger();
    },
    endBackend: backend.end,
    holdClient: client.hold,
    isClientBehind: () => client.socket.writableNeedDrain,
  });
  const remove = onAbort(signal, destroyBoth);

  function follow(side: Side, from: (bytes: Buffer) => void, onEnd: () => void): void {
    let hasEnded = false;
    const endOnce = () => {
      if (hasEnded) return;
      hasEnded = true;
      if (side === client) hasClientEnded = true;
      linger();
      onEnd();
    };
    side.socket.on("data", (bytes: Buffer) => {
      idle.touch();
      from(bytes);
    });
    side.socket.on("end", endOnce);
    side.socket.on("error", () => {
      // "close" follows.
    });
    side.socket.on("close", () => {
      endOnce();
      if (side === client) backend.socket.destroy();
      else {
        client.end();
        client.discard();
      }
      if (!client.isClosed() || !backend.isClosed()) return;
      idle.stop();
      cancelLinger?.();
      remove();
      resolve();
    });
  }
  follow(client, translation.fromClient, translation.onClientEnd);
  follow(backend, translation.fromBackend, translation.onBackendEnd);
  if (received.backend.length > 0) translation.fromBackend(received.backend);
  if (received.client.length > 0) translation.fromClient(received.client);
  backend.read();
  client.read();
  // One of them may have closed before anyone listened.
  for (const { socket } of [client, backend]) if (socket.closed) socket.emit("close");
  return promise;
}

interface Side {
  readonly socket: Duplex;
  /** Writes what this side has sent to the other, and stops reading while the other does not take it. */
  forward(bytes: Buffer, to: Side): void;
  end(): void;
  hold(isHeld: boolean): void;
  read(): void;
  /** Reads on, whatever becomes of it: a connection that is closed with unread bytes loses what it has sent. */
  discard(): void;
  isClosed(): boolean;
}

function createSide(socket: Duplex): Side {
  let isHeld = false;
  let isWaiting = false;
  let isStarted = false;
  const read = () => {
    if (isStarted && !isHeld && !isWaiting) socket.resume();
    else socket.pause();
  };
  return {
    socket,
    forward(bytes, to) {
      if (to.socket.destroyed || to.socket.writableEnded || to.socket.write(bytes) || isWaiting) return;
      isWaiting = true;
      read();
      to.socket.once("drain", () => {
        isWaiting = false;
        read();
      });
    },
    end() {
      if (!socket.destroyed && !socket.writableEnded) socket.end();
    },
    hold(hold) {
      isHeld = hold;
      read();
    },
    read() {
      isStarted = true;
      read();
    },
    discard() {
      isHeld = false;
      isWaiting = false;
      read();
    },
    isClosed: () => socket.closed,
  };
}

/** One timer a session. It is not moved with each byte: when it fires, it waits for the rest of the time since the last one. */
function createIdleTimer(clock: Clock, timeoutMs: number, onIdle: () => void) {
  let lastMs = clock.monotonicMs();
  let cancel = () => {};
  const wait = (ms: number) => {
    cancel = clock.wakeAt(clock.now() + ms, () => {
      const leftMs = lastMs + timeoutMs - clock.monotonicMs();
      if (leftMs > 0) wait(leftMs);
      else onIdle();
    });
  };
  if (timeoutMs > 0) wait(timeoutMs);
  return {
    touch() {
      lastMs = clock.monotonicMs();
    },
    stop: () => cancel(),
  };
}
