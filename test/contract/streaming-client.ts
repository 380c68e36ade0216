// Clients of exec, attach and portForward for tests: one by SPDY, with the product's codec, and one by WebSocket, with Bun's.
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { createRemoteCommand } from "../../agent/serve/streaming/remote-command.ts";
import type { ProcessStreams } from "../../cri/runtime.ts";

/** What a session has brought. */
export interface SessionResult {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  /** The `metav1.Status`; undefined if the session ended without. */
  readonly status: unknown;
}

/** A session with a process. */
export interface TestSession {
  write(data: Buffer): Promise<void>;
  endStdin(): void;
  resize(width: number, height: number): void;
  /** Resolves when stdout contains the text. */
  sees(text: string): Promise<void>;
  /** Resolves when the session has ended. */
  readonly result: Promise<SessionResult>;
  /** Breaks the connection, as a client that is killed. */
  vanish(): void;
}

/** Opens a session at a path such as `/exec/ns/pod/container?command=true&output=1`. Rejects if it is refused. */
export type OpenSession = (port: number, path: string) => Promise<TestSession>;

function streamsOf(path: string): ProcessStreams {
  const { searchParams } = new URL(path, "https://node");
  const isSet = (name: string) => searchParams.get(name) === "1";
  return { stdin: isSet("input"), stdout: isSet("output"), stderr: isSet("error") && !isSet("tty"), tty: isSet("tty") };
}

function createOutput() {
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[], status: [] as Buffer[] };
  const waiting = new Set<() => void>();
  const { promise: result, resolve } = Promise.withResolvers<SessionResult>();
  const isSeen = (text: string) => Buffer.concat(parts.stdout).includes(text);
  return {
    result,
    add(stream: keyof typeof parts, part: Buffer) {
      parts[stream].push(part);
      for (const check of waiting) check();
    },
    end() {
      const status = Buffer.concat(parts.status).toString();
      resolve({
        stdout: Buffer.concat(parts.stdout),
        stderr: Buffer.concat(parts.stderr),
        status: status === "" ? undefined : JSON.parse(status),
      });
    },
    sees(text: string): Promise<void> {
      return new Promise((seen, reject) => {
        const check = () => {
          if (!isSeen(text)) return;
          waiting.delete(check);
          seen();
        };
        waiting.add(check);
        check();
        void result.then(({ stdout, stderr, status }) =>
          reject(new Error(`ended without ${text}: ${stdout}${stderr}${JSON.stringify(status)}`)),
        );
      });
    },
  };
}

interface Upgraded {
  readonly socket: TLSSocket;
  /** What came behind the answer. */
  readonly rest: Buffer;
}

export function upgradeToSpdy(port: number, path: string, protocol: string): Promise<Upgraded> {
  return upgrade(port, `POST ${path}`, ["Upgrade: SPDY/3.1", `X-Stream-Protocol-Version: ${protocol}`]);
}

/** As {@link connectAndUpgrade}, at a server of a test on this machine. */
export const upgrade = (port: number, target: string, headers: readonly string[]): Promise<Upgraded> =>
  connectAndUpgrade({ host: "127.0.0.1", port, rejectUnauthorized: false }, target, [
    "Authorization: Bearer secret",
    ...headers,
  ]);

/** Connects and asks for another protocol. Rejects with the answer if it is not 101. */
export async function connectAndUpgrade(
  server: ConnectionOptions,
  target: string,
  headers: readonly string[],
): Promise<Upgraded> {
  const socket = connect(server);
  socket.on("error", () => undefined);
  const lines = ["Host: node", "Connection: Upgrade", ...headers];
  socket.write(`${[`${target} HTTP/1.1`, ...lines].join("\r\n")}\r\n\r\n`);
  return await new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    const onEnd = () => reject(new Error(received.toString()));
    const onData = (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      const end = received.indexOf("\r\n\r\n");
      if (end < 0 || !received.toString().startsWith("HTTP/1.1 101 ")) return;
      socket.pause();
      socket.off("data", onData);
      socket.off("close", onEnd);
      resolve({ socket, rest: received.subarray(end + 4) });
    };
    socket.on("data", onData);
    socket.on("close", onEnd);
  });
}

export const openBySpdy: OpenSession = async (port, path) => {
  const { socket, rest } = await upgradeToSpdy(port, path, "v4.channel.k8s.io");
  const output = createOutput();
  const ready = Promise.withResolvers<void>();
  const command = createRemoteCommand(streamsOf(path), (bytes) => void socket.write(bytes), {
    onReady: ready.resolve,
    onOutput: output.add,
    onEnd(status) {
      if (status !== undefined) output.add("status", status);
      output.end();
      socket.end();
    },
  });
  if (rest.length > 0) command.receive(rest);
  socket.on("data", command.receive);
  socket.on("close", command.end);
  socket.resume();
  await ready.promise;
  return {
    result: output.result,
    sees: output.sees,
    async write(data) {
      command.stdin(data);
      if (socket.writableNeedDrain) await new Promise<void>((resolve) => socket.once("drain", resolve));
    },
    endStdin: command.endStdin,
    resize: (width, height) => command.resize(Buffer.from(JSON.stringify({ Width: width, Height: height }))),
    vanish: () => void socket.destroy(),
  };
};

/** Opens sessions by WebSocket with the subprotocols. Only `v5.channel.k8s.io` can end stdin. */
export function openByWebSocket(...protocols: readonly string[]): OpenSession {
  return async (port, path) => {
    const options = { protocols: [...protocols], tls: { rejectUnauthorized: false } };
    const socket = new WebSocket(`wss://127.0.0.1:${port}${path}`, options as unknown as string[]);
    socket.binaryType = "nodebuffer" as "arraybuffer";
    const output = createOutput();
    const channels = { 1: "stdout", 2: "stderr", 3: "status" } as const;
    socket.addEventListener("message", ({ data }) => {
      const bytes = data as unknown as Buffer;
      const channel = channels[bytes[0] as keyof typeof channels];
      if (bytes.length > 1) output.add(channel, bytes.subarray(1));
    });
    await new Promise<void>((resolve, reject) => {
      socket.addEventListener("open", () => resolve());
      socket.addEventListener("close", () => reject(new Error("refused")));
    });
    socket.addEventListener("close", () => output.end());
    const send = (channel: number, data: Buffer) => void socket.send(Buffer.concat([Buffer.from([channel]), data]));
    return {
      result: output.result,
      sees: output.sees,
      async write(data) {
        send(0, data);
        while (socket.bufferedAmount > 1_000_000) await Bun.sleep(1);
      },
      endStdin: () => send(255, Buffer.from([0])),
      resize: (width, height) => send(4, Buffer.from(JSON.stringify({ Width: width, Height: height }))),
      vanish: () => socket.terminate(),
    };
  };
}
