import { connect, createServer, type Socket } from "node:net";
import type { CgroupFiles } from "../../cgroups/files.ts";
import {
  bodyOf,
  type DbusMessage,
  type DbusValue,
  type DbusVariant,
  decodeMessage,
  encodeMessage,
} from "../../cgroups/systemd/dbus-message.ts";
import { formatCpuList } from "../../proto/cgroup/cpu-list.ts";

const PATH = "/org/freedesktop/systemd1";
const INTERFACE = "org.freedesktop.systemd1.Manager";
const INFINITY = 2n ** 64n - 1n;

/** A reply of systemd to a call, and what it does afterwards. */
interface Answer {
  readonly signature?: string;
  readonly body?: readonly DbusValue[];
  readonly error?: { readonly name: string; readonly text: string };
  /** Runs after the reply is sent. */
  readonly afterwards?: () => void;
}

/**
 * systemd's manager of units, as far as slices need it, over a tree that imitates cgroup v2: it makes the folders of a
 * slice with the controllers that it has words for, disables cpuset where no slice below wants it, and writes the
 * properties that calls set some time after the reply.
 */
export class FakeSystemd {
  /** The properties of each unit that runs. */
  readonly units = new Map<string, Map<string, DbusValue>>();
  /** The calls that arrived: `StartTransientUnit kubepods.slice`. */
  readonly calls: string[] = [];
  /** Refuses the calls of a method with this error. */
  refused: { readonly member: string; readonly name: string; readonly text: string } | undefined;
  /** How jobs end. */
  jobResult = "done";
  /** Whether calls are left without an answer. */
  isSilent = false;
  /** Whether jobs end at all. */
  endsJobs = true;
  /** The signal of a job's end is sent before the reply that names the job. */
  isSignalFirst = false;
  readonly #root: string;
  readonly #files: CgroupFiles;
  #jobs = 0;

  constructor(root: string, files: CgroupFiles) {
    this.#root = root;
    this.#files = files;
  }

  /** The messages that answer a call, in their order; `send` takes those that come later. */
  async answer(call: DbusMessage, send: (message: Uint8Array) => void): Promise<void> {
    const unit = call.signature.startsWith("s") ? String(bodyOf(call)[0]) : "";
    this.calls.push(`${call.member}${unit === "" ? "" : ` ${unit}`}`);
    if (this.isSilent) return;
    const { signature = "", body = [], error, afterwards } = await this.#answerOf(call, unit, send);
    const header = { replySerial: call.serial, ...(call.sender !== undefined && { destination: call.sender }) };
    send(
      error === undefined
        ? encodeMessage({ kind: "return", serial: this.#nextSerial(), ...header, signature }, body)
        : encodeMessage(
            { kind: "error", serial: this.#nextSerial(), ...header, errorName: error.name, signature: "s" },
            [error.text],
          ),
    );
    afterwards?.();
  }

  async #answerOf(call: DbusMessage, unit: string, send: (message: Uint8Array) => void): Promise<Answer> {
    const { refused } = this;
    if (refused !== undefined && refused.member === call.member) return { error: refused };
    switch (call.member) {
      case "StartTransientUnit": {
        if (this.units.has(unit)) return exists(unit);
        const properties = (bodyOf(call)[2] ?? []) as readonly (readonly [string, DbusVariant])[];
        await this.#start(unit, properties);
        return this.#job(unit, send);
      }
      case "SetUnitProperties": {
        const properties = (bodyOf(call)[2] ?? []) as readonly (readonly [string, DbusVariant])[];
        return { afterwards: () => setImmediate(() => void this.#set(unit, properties)) };
      }
      case "StopUnit": {
        if (!this.units.has(unit))
          return { error: { name: "org.freedesktop.systemd1.NoSuchUnit", text: `Unit ${unit} not loaded.` } };
        await this.#stop(unit);
        return this.#job(unit, send);
      }
      case "Subscribe":
        return {};
      default:
        return { error: { name: "org.freedesktop.DBus.Error.UnknownMethod", text: `Unknown method ${call.member}` } };
    }
  }

  #job(unit: string, send: (message: Uint8Array) => void): Answer {
    this.#jobs += 1;
    const job = `${PATH}/job/${this.#jobs}`;
    const body = [this.#jobs, job, unit, this.jobResult];
    const header = { path: PATH, interface: INTERFACE, member: "JobRemoved", signature: "uoss" } as const;
    const signal = () =>
      this.endsJobs && send(encodeMessage({ kind: "signal", serial: this.#nextSerial(), ...header }, body));
    if (this.isSignalFirst) signal();
    return { signature: "o", body: [job], afterwards: this.isSignalFirst ? () => {} : () => setImmediate(signal) };
  }

  #serial = 0;
  #nextSerial(): number {
    this.#serial += 1;
    return this.#serial;
  }

  async #start(unit: string, properties: readonly (readonly [string, DbusVariant])[]): Promise<void> {
    let parent = this.#root;
    for (const slice of ancestors(unit)) {
      await this.#files.write(`${parent}/cgroup.subtree_control`, "+cpu +io +memory +pids");
      await this.#disableCpuset(parent);
      parent = `${parent}/${slice}`;
      await this.#files.makeFolder(parent);
      if (!this.units.has(slice)) this.units.set(slice, new Map());
    }
    await this.#set(unit, properties);
  }

  async #disableCpuset(folder: string): Promise<void> {
    const isEnabled = this.#files.read(`${folder}/cgroup.subtree_control`)?.split(" ").includes("cpuset");
    // A cgroup below passes it on to others: the kernel answers EBUSY, and systemd goes on.
    if (isEnabled) await this.#files.write(`${folder}/cgroup.subtree_control`, "-cpuset").catch(() => {});
  }

  async #set(unit: string, properties: readonly (readonly [string, DbusVariant])[]): Promise<void> {
    const own = this.units.get(unit) ?? new Map<string, DbusValue>();
    this.units.set(unit, own);
    for (const [name, { value }] of properties) own.set(name, value);
    for (const [file, value] of filesOf(own)) {
      const path = [this.#root, ...ancestors(unit), file].join("/");
      // A limit that the kernel rejects is a line of systemd's log.
      if (this.#files.read(path) !== undefined) await this.#files.write(path, value).catch(() => {});
    }
  }

  async #stop(unit: string): Promise<void> {
    const prefix = unit.replace(/slice$/, "").replace(/\.$/, "-");
    for (const each of [...this.units.keys()].toSorted((a, b) => b.length - a.length))
      if (each === unit || each.startsWith(prefix)) {
        this.units.delete(each);
        const folder = [this.#root, ...ancestors(each)].join("/");
        // What is in use stays.
        await this.#files.removeFolder(folder).catch(() => {});
      }
  }
}

const exists = (unit: string): Answer => ({
  error: {
    name: "org.freedesktop.systemd1.UnitExists",
    text: `Unit ${unit} was already loaded or has a fragment file.`,
  },
});

/** `a-b.slice` is in `a.slice`. */
function ancestors(unit: string): readonly string[] {
  const parts = unit.replace(/\.slice$/, "").split("-");
  return parts.map((_, index) => `${parts.slice(0, index + 1).join("-")}.slice`);
}

/** The files that systemd writes for the properties of a unit. */
function filesOf(properties: ReadonlyMap<string, DbusValue>): readonly (readonly [string, string])[] {
  const limit = (value: DbusValue) => (value === INFINITY ? "max" : String(value));
  const named: Readonly<Record<string, string>> = {
    CPUWeight: "cpu.weight",
    MemoryMin: "memory.min",
    MemoryLow: "memory.low",
    MemoryHigh: "memory.high",
    MemoryMax: "memory.max",
    MemorySwapMax: "memory.swap.max",
    TasksMax: "pids.max",
  };
  const numbers = Object.entries(named).flatMap(([name, file]) => {
    const value = properties.get(name);
    return value === undefined ? [] : [[file, limit(value)] as const];
  });
  const period = BigInt((properties.get("CPUQuotaPeriodUSec") as bigint | undefined) ?? 100_000n);
  const perSecond = properties.get("CPUQuotaPerSecUSec") as bigint | undefined;
  const quota = perSecond === undefined || perSecond === INFINITY ? "max" : String((perSecond * period) / 1_000_000n);
  const cpus = properties.get("AllowedCPUs") as readonly number[] | undefined;
  const list = cpus?.flatMap((byte, index) =>
    Array.from({ length: 8 }, (_, bit) => index * 8 + bit).filter((cpu) => (byte >> (cpu % 8)) & 1),
  );
  return [
    ...numbers,
    ...(perSecond === undefined ? [] : [["cpu.max", `${quota} ${period}`] as const]),
    ...(list === undefined ? [] : [["cpuset.cpus", formatCpuList(new Set(list))] as const]),
  ];
}

export interface FakeSystemdSocket {
  /** The connections that were accepted. */
  connections(): number;
  /** Ends the connections that are open. */
  drop(): void;
  close(): Promise<void>;
}

/** systemd's own socket: D-Bus without a bus. `answer` to the authentication may refuse it. */
export async function listenAsSystemd(
  path: string,
  systemd: FakeSystemd,
  answer = "OK 0123456789abcdef0123456789abcdef",
): Promise<FakeSystemdSocket> {
  const open = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    socket.on("error", () => open.delete(socket));
    serve(socket, systemd, answer);
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  return {
    connections: () => connections,
    drop: () => {
      for (const socket of open) socket.destroy();
    },
    close: () =>
      new Promise((resolve) => {
        for (const socket of open) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

function serve(socket: Socket, systemd: FakeSystemd, answer: string): void {
  let isAuthenticated = false;
  const onMessage = createAnswers(systemd, socket);
  receive(socket, (received) => {
    if (isAuthenticated) return takeMessages(received, onMessage);
    const text = Buffer.from(received).toString("latin1");
    const [auth = ""] = /^\0AUTH EXTERNAL [0-9a-f]+\r\n/.exec(text) ?? [];
    if (auth !== "") socket.write(`${answer}\r\n`);
    const rest = received.subarray(auth.length);
    if (!text.startsWith(BEGIN, auth.length)) return rest;
    isAuthenticated = true;
    // systemd leaves a message that it reads together with this line until it reads more.
    return rest.subarray(BEGIN.length);
  });
}

const BEGIN = "BEGIN\r\n";

/** Joins a message bus under systemd's name. The function leaves it. */
export async function joinBusAsSystemd(path: string, systemd: FakeSystemd): Promise<() => void> {
  const socket = connect({ path });
  const joined = Promise.withResolvers<void>();
  const bus = { path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus", destination: "org.freedesktop.DBus" };
  const onCall = createAnswers(systemd, socket);
  let isAuthenticated = false;
  socket.on("error", joined.reject);
  socket.on("connect", () =>
    socket.write(`\0AUTH EXTERNAL ${Buffer.from(String(process.getuid?.())).toString("hex")}\r\n`),
  );
  receive(socket, (received) => {
    if (isAuthenticated)
      return takeMessages(received, (message) => {
        if (message.kind === "call") onCall(message);
        if (message.kind === "error") joined.reject(new Error(message.errorName));
        if (message.kind === "return" && message.replySerial === 2) joined.resolve();
      });
    if (!Buffer.from(received).includes("\r\n")) return received;
    isAuthenticated = true;
    socket.write(BEGIN);
    socket.write(encodeMessage({ kind: "call", serial: 1, ...bus, member: "Hello" }));
    const name = { kind: "call", serial: 2, ...bus, member: "RequestName", signature: "su" } as const;
    socket.write(encodeMessage(name, ["org.freedesktop.systemd1", 0]));
    return new Uint8Array();
  });
  await joined.promise;
  return () => socket.destroy();
}

/** Answers calls one after the other, as systemd does. */
function createAnswers(systemd: FakeSystemd, socket: Socket): (call: DbusMessage) => void {
  let last = Promise.resolve();
  return (call) => {
    last = last.then(() => systemd.answer(call, (bytes) => void socket.write(bytes)));
  };
}

/** Calls back with all bytes that have arrived and were not taken yet; it returns those that are left. */
function receive(socket: Socket, take: (received: Uint8Array) => Uint8Array): void {
  let received: Uint8Array = new Uint8Array();
  socket.on("data", (chunk: Buffer) => {
    received = take(Buffer.concat([received, chunk]));
  });
}

function takeMessages(received: Uint8Array, onMessage: (message: DbusMessage) => void): Uint8Array {
  let rest = received;
  for (let found = decodeMessage(rest); found !== undefined; found = decodeMessage(rest)) {
    rest = rest.subarray(found.length);
    onMessage(found.message);
  }
  return rest;
}
