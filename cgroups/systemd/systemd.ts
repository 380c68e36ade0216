import { onAbort, orAborted } from "../../host/async/abort.ts";
import { createIdleTimer } from "../../host/async/idle-timer.ts";
import type { Clock } from "../../host/clock.ts";
import { CgroupError, ownCgroupError } from "../error.ts";
import { connectDbus, type DbusAddress, type DbusConnection } from "./dbus-connection.ts";
import { bodyOf, type DbusMessage, type DbusValue } from "./dbus-message.ts";
import { propertiesText, sliceProperties, type UnitProperty } from "./unit-properties.ts";

/**
 * systemd's slices, by calls over D-Bus. Errors are `CgroupError`s whose `file` is the unit: `EDBUS` if systemd cannot be
 * reached, `ETIMEDOUT` if it takes longer than the limit, `ESYSTEMD` if it refuses or its job fails. Callers try again. A call
 * that the signal aborts rejects with the signal's reason; systemd may carry it out all the same.
 */
export interface Systemd {
  /** Starts a slice with these properties, and waits until it has its cgroup. False if systemd has this unit already; then its properties stay. */
  startSlice(
    unit: string,
    parent: string | undefined,
    properties: readonly UnitProperty[],
    signal?: AbortSignal,
  ): Promise<boolean>;
  /** Sets properties of a unit until the machine restarts. systemd writes their files a little later. */
  setProperties(unit: string, properties: readonly UnitProperty[], signal?: AbortSignal): Promise<void>;
  /** Stops a unit with all units in it, and waits until systemd has done so. Success if systemd does not have it. */
  stop(unit: string, signal?: AbortSignal): Promise<void>;
}

export interface SystemdOptions {
  /** The first that answers is used. */
  readonly addresses: readonly DbusAddress[];
  readonly uid: number;
  readonly clock: Clock;
  /** The limit of one operation, with the connection and the job. */
  readonly timeoutMs: number;
  /** How long the connection stays open without calls: it receives a signal for each change of a unit on the machine. */
  readonly idleMs: number;
}

/** systemd's own socket, which root alone can use and which needs no message bus, and the bus of the system. */
export const systemdAddresses: readonly DbusAddress[] = [
  { socketPath: "/run/systemd/private", isBus: false },
  { socketPath: "/run/dbus/system_bus_socket", isBus: true },
];

const MANAGER = {
  destination: "org.freedesktop.systemd1",
  path: "/org/freedesktop/systemd1",
  interface: "org.freedesktop.systemd1.Manager",
} as const;
const JOB_REMOVED = "JobRemoved";
const UNIT_EXISTS = "org.freedesktop.systemd1.UnitExists";
const NO_SUCH_UNIT = "org.freedesktop.systemd1.NoSuchUnit";

export function createSystemd(options: SystemdOptions): Systemd {
  const { clock, timeoutMs } = options;
  const session = createSession(options);

  /** What a call returns; undefined if systemd answers with the allowed error. */
  async function call(
    { dbus }: SystemdConnection,
    operation: Operation,
    { signature, body, allowed }: CallArguments,
    signal: AbortSignal,
  ): Promise<readonly DbusValue[] | undefined> {
    const { member, unit, value, sentence } = operation;
    const { errorName, values } = await dbus.call({ ...MANAGER, member, signature, body }, signal);
    if (errorName === undefined) return values;
    if (errorName === allowed) return undefined;
    throw ownCgroupError("ESYSTEMD", unit, value, [sentence, errorName, ...values].join(": "));
  }

  /** The result of the job that a call has started; undefined for the allowed error. */
  async function runJob(operation: Operation, args: CallArguments, signal: AbortSignal): Promise<string | undefined> {
    const connection = await orAborted(session.connected(), signal);
    return await connection.jobs.resultOf(async () => {
      const values = await call(connection, operation, args, signal);
      return values === undefined ? undefined : String(values[0]);
    }, signal);
  }

  /** The work's signal aborts with the caller's, and when the time is over. */
  async function within<T>(
    operation: Operation,
    work: (signal: AbortSignal) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    const limit = new AbortController();
    const removeListener = onAbort(signal, () => limit.abort(signal?.reason));
    const cancel = clock.wakeAt(clock.now() + timeoutMs, () => {
      const text = `${operation.sentence}: systemd has not done so within ${timeoutMs / 1000} s`;
      limit.abort(ownCgroupError("ETIMEDOUT", operation.unit, operation.value, text));
    });
    try {
      return await session.use(() => work(limit.signal));
    } catch (error) {
      if (!(error instanceof CgroupError) || error.code !== "EDBUS") throw error;
      const text = `${operation.sentence}: ${error.message}`;
      throw ownCgroupError("EDBUS", operation.unit, operation.value, text, { cause: error });
    } finally {
      cancel();
      removeListener();
    }
  }

  return {
    async startSlice(unit, parent, properties, signal) {
      const all = [...sliceProperties(unit, parent), ...properties];
      const operation = createOperation("StartTransientUnit", "start", unit, properties);
      const body = [unit, "replace", all.map(structOf), []];
      const args = { signature: "ssa(sv)a(sa(sv))", body, allowed: UNIT_EXISTS };
      const result = await within(operation, (limit) => runJob(operation, args, limit), signal);
      if (result === undefined) return false;
      if (result === "done") return true;
      throw ownCgroupError("ESYSTEMD", unit, operation.value, `${operation.sentence}: its job ended with "${result}"`);
    },
    async setProperties(unit, properties, signal) {
      const operation = createOperation("SetUnitProperties", "set properties of", unit, properties);
      const body = [unit, true, properties.map(structOf)];
      const set = async (limit: AbortSignal) =>
        await call(await orAborted(session.connected(), limit), operation, { signature: "sba(sv)", body }, limit);
      await within(operation, set, signal);
    },
    async stop(unit, signal) {
      const operation = createOperation("StopUnit", "stop", unit, []);
      // A job that fails leaves folders, which the caller removes.
      const args = { signature: "ss", body: [unit, "replace"], allowed: NO_SUCH_UNIT };
      await within(operation, (limit) => runJob(operation, args, limit), signal);
    },
  };
}

interface CallArguments {
  readonly signature: string;
  readonly body: readonly DbusValue[];
  /** An error of systemd that counts as success. */
  readonly allowed?: string;
}

interface Operation {
  /** systemd's method. */
  readonly member: string;
  readonly unit: string;
  readonly value: string | undefined;
  /** The beginning of an error's text. */
  readonly sentence: string;
}

function createOperation(member: string, verb: string, unit: string, properties: readonly UnitProperty[]): Operation {
  const value = properties.length === 0 ? undefined : propertiesText(properties);
  return {
    member,
    unit,
    value,
    sentence: `cannot ${verb} ${unit}${value === undefined ? "" : ` (${value})`} by systemd`,
  };
}

const structOf = ({ name, signature, value }: UnitProperty): DbusValue => [name, { signature, value }];

/** The connection to systemd, which opens with the first call and closes some time after the last one. */
interface Session {
  /** Keeps the connection open while the work runs. */
  use<T>(work: () => Promise<T>): Promise<T>;
  connected(): Promise<SystemdConnection>;
}

interface SystemdConnection {
  readonly dbus: DbusConnection;
  readonly jobs: Jobs;
}

function createSession({ addresses, uid, clock, idleMs, timeoutMs }: SystemdOptions): Session {
  let current: Promise<SystemdConnection> | undefined;
  let users = 0;
  const idle = createIdleTimer(clock, idleMs, () => {
    if (users > 0) return idle.touch();
    current?.then(
      ({ dbus }) => dbus.close(),
      () => {
        // The connection did not open: nothing is to be closed.
      },
    );
    current = undefined;
  });

  async function open(onEnd: () => void): Promise<SystemdConnection> {
    const failures: CgroupError[] = [];
    for (const address of addresses) {
      const limit = new AbortController();
      const cancel = clock.wakeAt(clock.now() + timeoutMs, () => limit.abort(noAnswer(address, timeoutMs)));
      try {
        return await connectTo(address, { uid, signal: limit.signal }, onEnd);
      } catch (error) {
        if (!(error instanceof CgroupError)) throw error;
        failures.push(error);
      } finally {
        cancel();
      }
    }
    const text = failures.map(({ message }) => message).join("; ");
    throw ownCgroupError("EDBUS", addresses.at(0)?.socketPath ?? "", undefined, text, { cause: failures.at(0) });
  }

  return {
    async use(work) {
      users += 1;
      try {
        return await work();
      } finally {
        users -= 1;
        idle.touch();
      }
    },
    connected() {
      if (current !== undefined) return current;
      const drop = () => {
        if (current === opening) current = undefined;
      };
      const opening = open(drop);
      current = opening;
      opening.catch(drop);
      return opening;
    },
  };
}

async function connectTo(
  address: DbusAddress,
  { uid, signal }: { readonly uid: number; readonly signal: AbortSignal },
  onEnd: () => void,
): Promise<SystemdConnection> {
  const jobs = createJobs();
  let isOpen = false;
  const onSignal = (message: DbusMessage) => {
    if (message.member !== JOB_REMOVED || message.interface !== MANAGER.interface) return;
    const [, job, , result] = bodyOf(message);
    jobs.ended(String(job), String(result));
  };
  const onConnectionEnd = (error: CgroupError) => {
    jobs.fail(error);
    if (isOpen) onEnd();
  };
  const dbus = await connectDbus({ address, uid, onSignal, onEnd: onConnectionEnd, signal });
  if (address.isBus) await subscribe(dbus, address);
  isOpen = true;
  return { dbus, jobs };
}

function noAnswer({ socketPath }: DbusAddress, timeoutMs: number): CgroupError {
  return ownCgroupError(
    "EDBUS",
    socketPath,
    undefined,
    `D-Bus at ${socketPath}: no answer within ${timeoutMs / 1000} s`,
  );
}

/** systemd sends signals over its own socket anyway, over a bus only to those who want them. */
async function subscribe(connection: DbusConnection, { socketPath }: DbusAddress): Promise<void> {
  const bus = { destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus" };
  const rule = `type='signal',interface='${MANAGER.interface}',member='${JOB_REMOVED}'`;
  const replies = [
    await connection.call({ ...bus, member: "AddMatch", signature: "s", body: [rule] }),
    await connection.call({ ...MANAGER, member: "Subscribe" }),
  ];
  for (const { errorName } of replies)
    if (errorName !== undefined && errorName !== "org.freedesktop.systemd1.AlreadySubscribed") {
      connection.close();
      throw ownCgroupError(
        "EDBUS",
        socketPath,
        undefined,
        `D-Bus at ${socketPath}: no signals of systemd: ${errorName}`,
      );
    }
}

/** The jobs of systemd that calls wait for. */
interface Jobs {
  ended(job: string, result: string): void;
  /** No job's end will be reported any more. */
  fail(error: CgroupError): void;
  /** The result of the job whose path the call returns; undefined if it returns none. Rejects with the signal's reason. */
  resultOf(call: () => Promise<string | undefined>, signal: AbortSignal): Promise<string | undefined>;
}

/** The signal of a job's end may arrive before the reply that names the job. */
function createJobs(): Jobs {
  const waiting = new Map<string, PromiseWithResolvers<string>>();
  const results = new Map<string, string>();
  let calls = 0;
  return {
    ended(job, result) {
      const waiter = waiting.get(job);
      waiting.delete(job);
      if (waiter !== undefined) waiter.resolve(result);
      else if (calls > 0) results.set(job, result);
    },
    fail(error) {
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
    },
    async resultOf(call, signal) {
      calls += 1;
      const result = Promise.withResolvers<string>();
      let job: string | undefined;
      try {
        job = await call();
        if (job === undefined) return undefined;
        const known = results.get(job);
        if (known !== undefined) return known;
        waiting.set(job, result);
      } finally {
        calls -= 1;
        if (calls === 0) results.clear();
      }
      const started = job;
      const removeListener = onAbort(signal, () => {
        waiting.delete(started);
        result.reject(signal.reason);
      });
      return await result.promise.finally(removeListener);
    },
  };
}
