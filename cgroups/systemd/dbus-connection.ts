import { connect, type Socket } from "node:net";
import { onAbort } from "../../host/async/abort.ts";
import { messageOf } from "../../host/error-message.ts";
import { type CgroupError, ownCgroupError } from "../error.ts";
import { bodyOf, type DbusMessage, type DbusValue, decodeMessage, encodeMessage } from "./dbus-message.ts";

/** Where a peer of D-Bus listens. */
export interface DbusAddress {
  readonly socketPath: string;
  /** The peer is a message bus, which has to be greeted and forwards calls; else it is the callee itself. */
  readonly isBus: boolean;
}

export interface DbusCall {
  /** The name that a bus knows the callee by; a direct peer ignores it. */
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly DbusValue[];
}

/** The answer to a call. */
export interface DbusReply {
  /** Undefined if the call has succeeded. */
  readonly errorName: string | undefined;
  /** What the call returns; of an error its text, if it has one. */
  readonly values: readonly DbusValue[];
}

/** A connection of one user: calls, and the signals of the peer. All errors are `CgroupError`s with `EDBUS`. */
export interface DbusConnection {
  /** Rejects when the connection ends before the reply, or with the signal's reason; the peer may carry the call out all the same. */
  call(call: DbusCall, signal?: AbortSignal): Promise<DbusReply>;
  close(): void;
}

export interface DbusConnectionOptions {
  readonly address: DbusAddress;
  /** The user whom the peer is to recognise by the socket: this process's. */
  readonly uid: number;
  readonly onSignal: (message: DbusMessage) => void;
  /** Called once, when the connection has ended. */
  readonly onEnd: (error: CgroupError) => void;
  readonly signal: AbortSignal;
}

const BUS: Pick<DbusCall, "destination" | "path" | "interface"> = {
  destination: "org.freedesktop.DBus",
  path: "/org/freedesktop/DBus",
  interface: "org.freedesktop.DBus",
};

/** Connects, authenticates as this process's user, and greets a bus. Rejects with `EDBUS`, or with the signal's reason. */
export async function connectDbus(options: DbusConnectionOptions): Promise<DbusConnection> {
  const { address, signal } = options;
  const problem = (what: string, cause?: unknown) =>
    ownCgroupError("EDBUS", address.socketPath, undefined, `D-Bus at ${address.socketPath}: ${what}`, { cause });
  const connection = createConnection(connect({ path: address.socketPath }), options, problem);
  const removeListener = onAbort(signal, () => connection.close());
  try {
    await connection.isReady;
    if (address.isBus) {
      const hello = await connection.call({ ...BUS, member: "Hello" });
      if (hello.errorName !== undefined) throw problem(`the bus refuses the connection: ${hello.errorName}`);
    }
    return connection;
  } catch (error) {
    connection.close();
    throw signal.aborted ? signal.reason : error;
  } finally {
    removeListener();
  }
}

type Problem = (what: string, cause?: unknown) => CgroupError;

/*
 * First a handshake in text lines, in which the kernel tells the peer who we are, then messages in both directions:
 *
 *   -> NUL AUTH EXTERNAL <uid in hex>, BEGIN   <- OK <id of the peer>   <-> messages
 *
 * BEGIN does not wait for OK: systemd leaves a message that it reads together with BEGIN until more bytes arrive, so a call right after
 * BEGIN may get no answer. Its own clients send both lines at once, too.
 *
 * https://dbus.freedesktop.org/doc/dbus-specification.html#auth-protocol
 */
function createConnection(
  socket: Socket,
  { address, uid, onSignal, onEnd }: DbusConnectionOptions,
  problem: Problem,
): DbusConnection & { readonly isReady: Promise<void> } {
  const ready = Promise.withResolvers<void>();
  const replies = new Map<number, PromiseWithResolvers<DbusReply>>();
  let isAuthenticated = false;
  let received: Uint8Array = new Uint8Array();
  let serial = 0;
  let ended: CgroupError | undefined;

  function end(error: CgroupError): void {
    if (ended !== undefined) return;
    ended = error;
    socket.destroy();
    ready.reject(error);
    for (const { reject } of replies.values()) reject(error);
    replies.clear();
    onEnd(error);
  }

  /** Whether the peer has answered. */
  function authenticate(): boolean {
    const answer = Buffer.from(received).toString("latin1");
    const length = answer.indexOf("\r\n") + 2;
    if (length < 2) return false;
    if (!answer.startsWith("OK ")) {
      end(problem(`user ${uid} is refused: ${answer.slice(0, Math.min(length - 2, 100))}`));
      return false;
    }
    received = received.subarray(length);
    isAuthenticated = true;
    ready.resolve();
    return true;
  }

  function onMessage(message: DbusMessage): void {
    const { kind, errorName, replySerial = 0 } = message;
    if (kind === "signal") onSignal(message);
    replies.get(replySerial)?.resolve({ errorName, values: bodyOf(message) });
    replies.delete(replySerial);
  }

  socket.on("connect", () => socket.write(`\0AUTH EXTERNAL ${Buffer.from(String(uid)).toString("hex")}\r\nBEGIN\r\n`));
  socket.on("data", (chunk: Uint8Array) => {
    received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
    if (!isAuthenticated && !authenticate()) return;
    try {
      for (let found = decodeMessage(received); found !== undefined; found = decodeMessage(received)) {
        received = received.subarray(found.length);
        onMessage(found.message);
      }
    } catch (error) {
      end(problem(`the peer sends what is not D-Bus: ${messageOf(error)}`, error));
    }
  });
  socket.on("error", (error) => end(problem(messageOf(error), error)));
  socket.on("close", () => end(problem("the peer has closed the connection")));

  return {
    isReady: ready.promise,
    async call({ destination, body, ...call }, signal) {
      signal?.throwIfAborted();
      if (ended !== undefined) throw ended;
      serial += 1;
      const own = serial;
      const reply = Promise.withResolvers<DbusReply>();
      replies.set(own, reply);
      const header = { kind: "call", serial: own, ...call, ...(address.isBus && { destination }) } as const;
      socket.write(encodeMessage(header, body));
      const removeListener = onAbort(signal, () => {
        replies.delete(own);
        reply.reject(signal?.reason);
      });
      return await reply.promise.finally(removeListener);
    },
    close: () => end(problem("this process has closed the connection")),
  };
}
