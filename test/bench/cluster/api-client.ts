import { type ClientHttp2Session, connect, type OutgoingHttpHeaders } from "node:http2";
import type { ControlPlane } from "../../upstream/control-plane.ts";

/** The API server as an administrator, in this very process: starting kubectl would take longer than what is measured. */
export interface ApiClient {
  create(path: string, object: unknown): Promise<void>;
  remove(path: string, options?: unknown): Promise<void>;
  /** By the merge keys that Kubernetes gives its lists. */
  patch(path: string, change: unknown): Promise<void>;
  list<T>(path: string): Promise<{ readonly items: readonly T[]; readonly resourceVersion: string }>;
  /**
   * Tells of every change since `resourceVersion` with the moment at which it came, in milliseconds since the epoch. Resolves once
   * the watch stands. The server may end it at any time, as it does to whoever is slow when much happens; then it is resumed.
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

/** A server takes a hundred requests of one connection at a time, and a hundred pods are asked for at once. */
const SESSIONS_OF_CALLS = 3;

/** A few HTTP/2 sessions. Every call rejects with the server's words where it is no success. */
export function connectApi({ server, ca, authority }: Pick<ControlPlane, "server" | "ca" | "authority">): ApiClient {
  const identity = authority.issue({ commonName: "bench", organizations: ["system:masters"] });
  const open = () => {
    const session = connect(server, { ca, ...identity, settings: { enablePush: false, initialWindowSize: 1 << 20 } });
    // A session that is lost shows in the calls on it.
    session.on("error", () => undefined);
    return session;
  };
  /** The first is for watches. */
  const sessions = Array.from({ length: 1 + SESSIONS_OF_CALLS }, open);
  let calls = 0;
  let isClosed = false;

  /** The server closes those that were idle for long, as they are while idleness is measured. */
  function sessionAt(place: number): ClientHttp2Session {
    const known = sessions[place];
    if (known !== undefined && !known.closed && !known.destroyed) return known;
    const session = open();
    sessions[place] = session;
    return session;
  }

  function call(method: string, path: string, body?: unknown, contentType?: string): Promise<string> {
    const session = sessionAt(1 + (calls++ % SESSIONS_OF_CALLS));
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
    async list<T>(path: string) {
      const { items, metadata } = JSON.parse(await call("GET", path)) as {
        readonly items: readonly T[];
        readonly metadata: { readonly resourceVersion: string };
      };
      return { items, resourceVersion: metadata.resourceVersion };
    },
    async watch<T extends Versioned>(path: string, resourceVersion: string, changed: (change: Change<T>) => void) {
      let last = resourceVersion;
      const begin = () =>
        openWatch<T>(sessionAt(0), `${path}?watch=true&resourceVersion=${last}`, (change) => {
          last = change.object.metadata.resourceVersion ?? last;
          changed(change);
        });
      const follow = async (ended: Promise<void>): Promise<void> => {
        await ended;
        if (!isClosed) await follow((await begin()).ended);
      };
      const { ended } = await begin();
      // A watch that cannot be resumed shows as changes that do not come.
      follow(ended).catch(() => undefined);
    },
    close() {
      isClosed = true;
      for (const session of sessions) session.destroy();
    },
  };
}

/** Resolves once the watch stands; `ended` when it has ended. */
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
