import {
  AttachRequest,
  AttachResponse,
  ExecRequest,
  ExecResponse,
  ExecSyncRequest,
  ExecSyncResponse,
  PortForwardRequest,
  PortForwardResponse,
} from "../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../proto/ids.ts";
import type { Connection } from "./connection.ts";
import type { CallOptions } from "./runtime.ts";
import { runtimeVerb } from "./verb.ts";

const verbs = {
  execSync: runtimeVerb("ExecSync", ExecSyncRequest, ExecSyncResponse),
  exec: runtimeVerb("Exec", ExecRequest, ExecResponse),
  attach: runtimeVerb("Attach", AttachRequest, AttachResponse),
  portForward: runtimeVerb("PortForward", PortForwardRequest, PortForwardResponse),
};

/** Running commands in containers. All but `execSync` answer with a URL of the runtime's own streaming server. */
export interface Streaming {
  /** `timeoutSeconds` 0 means none; a command that takes longer is killed, and the call fails with DEADLINE_EXCEEDED. */
  execSync(
    id: ContainerId,
    cmd: readonly string[],
    timeoutSeconds: number,
    options?: CallOptions,
  ): Promise<ExecSyncResponse>;
  exec(request: ExecRequest, options?: CallOptions): Promise<string>;
  attach(request: AttachRequest, options?: CallOptions): Promise<string>;
  portForward(id: SandboxId, ports: readonly number[], options?: CallOptions): Promise<string>;
}

/** `requestTimeoutMs` is the deadline; ExecSync adds its own timeout to it. */
export function createStreaming({ call }: Connection, requestTimeoutMs: number): Streaming {
  return {
    async execSync(containerId, cmd, timeoutSeconds, options) {
      const request = { containerId, cmd, timeout: BigInt(Math.ceil(timeoutSeconds)) };
      const deadlineMs = requestTimeoutMs + timeoutSeconds * 1000;
      return await call(verbs.execSync, request, { deadlineMs, ...options });
    },
    async exec(request, options) {
      return (await call(verbs.exec, request, { deadlineMs: requestTimeoutMs, ...options })).url;
    },
    async attach(request, options) {
      return (await call(verbs.attach, request, { deadlineMs: requestTimeoutMs, ...options })).url;
    },
    async portForward(podSandboxId, port, options) {
      return (await call(verbs.portForward, { podSandboxId, port }, { deadlineMs: requestTimeoutMs, ...options })).url;
    },
  };
}
