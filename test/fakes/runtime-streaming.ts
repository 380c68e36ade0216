// The sessions that the fake runtime prepares. It has no streaming server of its own: a test that opens a session starts one.
import type { CriCallOptions, ProcessStreams } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import { PodSandboxState } from "../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import { FakeRuntimeCalls, type RuntimeVerb } from "./runtime-calls.ts";
import { isRunning, unknownError } from "./runtime-objects.ts";
import type { FakeProcesses } from "./runtime-processes.ts";

export class FakeRuntimeStreaming extends FakeRuntimeCalls {
  /** The address in the URLs of sessions. */
  streamingServer = "http://127.0.0.1:1";
  readonly #processes: FakeProcesses;
  #tokens = 0;

  constructor(clock: Clock, requestTimeoutMs: number, processes: FakeProcesses) {
    super(clock, requestTimeoutMs);
    this.#processes = processes;
  }

  exec(id: ContainerId, cmd: readonly string[], _streams: ProcessStreams, options?: CriCallOptions): Promise<string> {
    return this.#prepare("exec", id, `: ${cmd.join(" ")}`, options);
  }

  attach(id: ContainerId, _streams: ProcessStreams, options?: CriCallOptions): Promise<string> {
    return this.#prepare("attach", id, "", options);
  }

  portForward(id: SandboxId, _ports: readonly number[], options?: CriCallOptions): Promise<string> {
    return this.call("portForward", id, options, () => {
      if (this.#processes.sandbox("portForward", id).state !== PodSandboxState.SANDBOX_READY)
        throw unknownError("portForward", `sandbox container "${id}" is not running`);
      return this.#url("portforward");
    });
  }

  #prepare(verb: RuntimeVerb & ("exec" | "attach"), id: ContainerId, what: string, options?: CriCallOptions) {
    return this.call(verb, `${this.#processes.subjectOf(id)}${what}`, options, () => {
      if (!isRunning(this.#processes.container(verb, id)))
        throw unknownError(verb, `container is in another state than running`);
      return this.#url(verb);
    });
  }

  #url(path: string): string {
    return `${this.streamingServer}/${path}/token-${++this.#tokens}`;
  }
}
