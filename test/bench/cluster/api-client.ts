import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from "node:http2";
import type { ControlPlane } from "../../upstream/control-plane.ts";

/**
 * An administrator's client of the API server, in this process: starting kubectl would take longer than the measured
 * time.
 */
export interface ApiClient {
  create(path: string, object: unknown): Promise<void>;
  remove(path: string, options?: unknown): Promise<void>;
  /** Sends a strategic merge patch. */
  patch(path: string, change: unknown): Promise<void>;
  get(path: string): Promise<unknown>;
  list<T>(path: string): Promise<{ readonly items: readonly T[]; readonly resourceVersion: string }>;
  /**
   * Calls `changed` for every change since `resourceVersion`, with its arrival time in milliseconds since the epoch.
   * Resolves once the watch is open. The server may end it at any time, for example when the client is slow; the watch
   * then resumes.
   */
  watch<T extends Versioned>(
    path: string,
    resourceVersion: string,
    changed: (change: Change<T>) => void,
  ): Promise<void>;
  close(): void;
}

interface Versioned {
  readonly metadata: { readonly resourceVersion?: string };
}

export interface Change<T> {
  readonly type: string;
  readonly object: T;
  readonly at: number;
}

/** A server handles a hundred concurrent requests per connection, and the benchmark creates a hundred pods at once. */
const CALL_SESSIONS = 3;

/** Connects with a few HTTP/2 sessions. A call without a 2xx status rejects with the server's response. */
export function connectApi({ server, ca, authority }: Pick<ControlPlane, "server" | "ca" | "authority">): ApiClient {
  const identity = authority.issue({ commonName: "bench", organizations: ["system:masters"] });
  const open = () => {
    const session = connect(server, { ca, ...identity, settings: { enablePush: false, initialWindowSize: 1 << 20 } });
    // The calls of a lost session reject by themselves.
    session.on("error", () => undefined);
    return session;
  };
  /** The first session is for watches. */
  const sessions = Array.from({ length: 1 + CALL_SESSIONS }, open);
  let calls = 0;
  let isClosed = false;

  /** Reopens a session that the server has closed, as it does after a long idle phase. */
  function sessionAt(index: number): ClientHttp2Session {
    const current = sessions[index];
    if (current !== undefined && !current.closed && !current.destroyed) return current;
    const session = open();
    sessions[index] = session;
    return session;
  }

  function call(method: string, path: string, body?: unknown, contentType?: string): Promise<string> {
    const session = sessionAt(1 + (calls++ % CALL_SESSIONS));
    return new Promise((resolve, reject) => {
      const stream = session.request(headersOf(method, path, contentType), { endStream: body === undefined });
      let status = 0;
      let text = "";
      stream.setEncoding("utf8");
      stream.on("response", (headers) => {
        status = Number(headers[":status"]);
      });
      stream.on("data", (chunk: string) => {
        text += chunk;
      });
      stream.on("error", reject);
      stream.on("end", () => {
        if (status < 300 && status >= 200) resolve(text);
        else reject(new Error(`${method} ${path} was answered with ${status}: ${text}`));
      });
      if (body !== undefined) stream.end(JSON.stringify(body));
    });
  }

  return {
    async create(path, object) {
      await call("POST", path, object);
    },
    async remove(path, options) {
      await call("DELETE", path, options);
    },
    async patch(path, change) {
      await call("PATCH", path, change, "application/strategic-merge-patch+json");
    },
    async get(path) {
      return JSON.parse(await call("GET", path)) as unknown;
    },
    async list<T>(path: string) {
      const { items, metadata } = JSON.parse(await call("GET", path)) as {
        readonly items: readonly T[];
        readonly metadata: { readonly resourceVersion: string };
      };
      return { items, resourceVersion: metadata.resourceVersion };
    },
    async watch<T extends Versioned>(path: string, resourceVersion: string, changed: (change: Change<T>) => void) {
      let last = resourceVersion;
      const openNext = () =>
        openWatch<T>(sessionAt(0), `${path}?watch=true&resourceVersion=${last}`, (change) => {
          last = change.object.metadata.resourceVersion ?? last;
          changed(change);
        });
      const resumeWhenEnded = async (ended: Promise<void>): Promise<void> => {
        await ended;
        if (!isClosed) await resumeWhenEnded((await openNext()).ended);
      };
      const { ended } = await openNext();
      // If a watch cannot be resumed, the callers' timeouts report the missing changes.
      resumeWhenEnded(ended).catch(() => undefined);
    },
    close() {
      isClosed = true;
      for (const session of sessions) session.destroy();
    },
  };
}

/** Resolves once the watch is open; `ended` resolves when it has ended. */
function openWatch<T>(
  session: ClientHttp2Session,
  path: string,
  changed: (change: Change<T>) => void,
): Promise<{ readonly ended: Promise<void> }> {
  return new Promise((resolve, reject) => {
    const stream = session.request(headersOf("GET", path), { endStream: true });
    const ended = new Promise<void>((end) => stream.once("close", () => end()));
    let rest = "";
    stream.setEncoding("utf8");
    stream.on("response", ({ ":status": status }) => {
      if (status === 200) resolve({ ended });
      else reject(new Error(`the watch of ${path} was answered with ${status}`));
    });
    stream.on("error", reject);
    stream.on("data", (chunk: string) => {
      const at = Date.now();
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) changed({ ...(JSON.parse(line) as Omit<Change<T>, "at">), at });
    });
  });
}

function headersOf(method: string, path: string, contentType = "application/json"): OutgoingHttpHeaders {
  return { ":method": method, ":path": path, accept: "application/json", "content-type": contentType };
}
