import { type Clock, sleep } from "../../host/clock.ts";
import { type Exec, ExecError, type ExecOptions } from "../../host/exec.ts";
import type { FakeAttachmentLocks } from "./attachment-locks.ts";

/** What a plugin has made for one interface of one sandbox. */
interface Made {
  readonly plugin: string;
  readonly containerId: string;
  readonly ifName: string;
  /** The pod in the runtime's arguments. */
  readonly pod: string;
  /** Of the plugin that gives addresses. */
  readonly address: string | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

/** One call of a plugin: `ADD bridge`, and the sandbox. */
interface Call {
  readonly verb: string;
  readonly plugin: string;
  readonly containerId: string;
  readonly ifName: string;
  readonly pod: string;
  readonly conf: Fields;
}

/** The plugin that gives each sandbox an address; the others follow it and pass its result on. */
const FIRST = "bridge";
const SUBNET = "10.88.0";

/**
 * The plugins of a node in memory, and what they have made. A plugin needs some time, goes on when its executor dies, and
 * keeps the locks that it has inherited until it ends.
 */
export class FakeNetworkPlugins implements Exec {
  /** What they have made and not yet removed. */
  readonly made = new Map<string, Made>();
  /** The calls that have ended, in their order: `ADD bridge sandbox-1`. */
  readonly calls: string[] = [];
  /** What no executor may do, such as a second ADD without DEL. */
  readonly violations: string[] = [];
  /** The calls that fail next, each once: `ADD portmap`. */
  readonly failures = new Set<string>();
  /** How long each call takes. */
  lastsMs = 10;
  readonly #clock: Clock;
  readonly #locks: FakeAttachmentLocks;
  /** The sandboxes that a plugin works on. */
  readonly #worksOn = new Set<string>();

  constructor(clock: Clock, locks: FakeAttachmentLocks) {
    this.#clock = clock;
    this.#locks = locks;
  }

  async run(argv: readonly [string, ...string[]], options: ExecOptions) {
    const call = readCall(argv[0], options);
    return await this.#locks.inherit(options.inheritedDescriptors ?? [], async () => {
      await this.#work(call, options.signal).catch((cause) => {
        throw new ExecError(argv, undefined, "", `${argv[0]} was cancelled`, cause);
      });
      this.calls.push(describeCall(call));
      const isFailure = this.failures.delete(`${call.verb} ${call.plugin}`);
      const { violation, output } = isFailure ? { violation: undefined, output: undefined } : this.#answer(call);
      if (violation !== undefined) this.violations.push(violation);
      if (!isFailure && violation === undefined)
        return { stdout: output === undefined ? "" : JSON.stringify(output), stderr: "" };
      options.onStdout?.(JSON.stringify({ code: 100, msg: violation ?? "out of order" }));
      throw new ExecError(argv, 1, "", `${argv[0]} exited with code 1`);
    });
  }

  /** Takes the time of a call. Rejects when the call is cancelled, which kills the plugin. */
  async #work({ containerId }: Call, signal: AbortSignal | undefined): Promise<void> {
    if (containerId !== "" && this.#worksOn.has(containerId))
      this.violations.push(`two plugins work on ${containerId} at once`);
    this.#worksOn.add(containerId);
    try {
      await sleep(this.#clock, this.lastsMs, signal);
    } finally {
      this.#worksOn.delete(containerId);
    }
  }

  #answer(call: Call): { readonly violation?: string; readonly output?: Fields | undefined } {
    const { verb, plugin, containerId, ifName } = call;
    const key = `${plugin} ${containerId} ${ifName}`;
    switch (verb) {
      case "ADD": {
        if (this.made.has(key)) return { violation: `${plugin}: ADD of ${containerId} twice without DEL` };
        const { prevResult } = call.conf;
        if (plugin !== FIRST && prevResult === undefined) return { violation: `${plugin}: ADD without prevResult` };
        const address = plugin === FIRST ? this.#freeAddress() : undefined;
        this.made.set(key, { plugin, containerId, ifName, pod: call.pod, address });
        return { output: address === undefined ? (prevResult as Fields) : resultOf(call.conf, ifName, address) };
      }
      case "DEL":
        this.made.delete(key);
        return {};
      case "GC": {
        const valid = call.conf["cni.dev/valid-attachments"] as readonly { containerID: string; ifname: string }[];
        for (const [each, made] of this.made)
          if (made.plugin === plugin && !valid.some((one) => isOf(made, one))) this.made.delete(each);
        return {};
      }
      default:
        return { violation: `${plugin}: an unexpected call of ${verb}` };
    }
  }

  #freeAddress(): string {
    const taken = new Set([...this.made.values()].map(({ address }) => address));
    for (let last = 2; ; last++) if (!taken.has(`${SUBNET}.${last}`)) return `${SUBNET}.${last}`;
  }
}

const isOf = (made: Made, { containerID, ifname }: { readonly containerID: string; readonly ifname: string }) =>
  made.containerId === containerID && made.ifName === ifname;

const resultOf = ({ cniVersion }: Fields, ifName: string, address: string): Fields => ({
  cniVersion,
  interfaces: [{ name: ifName, sandbox: "/run/netns/any" }],
  ips: [{ address: `${address}/24`, interface: 0 }],
});

function readCall(path: string, { env = {}, stdin = "" }: ExecOptions): Call {
  const [, pod = ""] = /K8S_POD_NAME=([^;]*)/.exec(env["CNI_ARGS"] ?? "") ?? [];
  return {
    verb: env["CNI_COMMAND"] ?? "",
    plugin: path.slice(path.lastIndexOf("/") + 1),
    containerId: env["CNI_CONTAINERID"] ?? "",
    ifName: env["CNI_IFNAME"] ?? "",
    pod: pod.replace(/-node$/, ""),
    conf: JSON.parse(String(stdin)) as Fields,
  };
}

/** What a call of a plugin is about: `ADD bridge sandbox-1`. */
export function describePluginCall(path: string, options: ExecOptions): string {
  return describeCall(readCall(path, options));
}

const describeCall = ({ verb, plugin, containerId }: Call) =>
  `${verb} ${plugin}${containerId === "" ? "" : ` ${containerId}`}`;
