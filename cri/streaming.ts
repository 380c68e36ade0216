import {
  AttachRequest,
  AttachResponse,
  ExecRequest,
  ExecResponse,
  PortForwardRequest,
  PortForwardResponse,
} from "../proto/cri/gen/api.ts";
import type { SandboxId } from "../proto/ids.ts";
import type { Channel } from "./channel.ts";
import { runtimeMethod } from "./rpc-method.ts";
import type { CriCallOptions } from "./runtime.ts";

const methods = {
  exec: runtimeMethod("Exec", ExecRequest, ExecResponse),
  attach: runtimeMethod("Attach", AttachRequest, AttachResponse),
  portForward: runtimeMethod("PortForward", PortForwardRequest, PortForwardResponse),
};

/**
 * Exec, attach and port-forward. Each call returns a URL of the runtime's streaming server. Not used by the agent yet,
 * only by tests.
 */
export interface Streaming {
  exec(request: ExecRequest, options?: CriCallOptions): Promise<string>;
  attach(request: AttachRequest, options?: CriCallOptions): Promise<string>;
  portForward(id: SandboxId, ports: readonly number[], options?: CriCallOptions): Promise<string>;
}

/** `requestTimeoutMs` is the deadline. */
export function createStreaming({ call }: Channel, requestTimeoutMs: number): Streaming {
  return {
    async exec(request, options) {
      return (await call(methods.exec, request, { deadlineMs: requestTimeoutMs, ...options })).url;
    },
    async attach(request, options) {
      return (await call(methods.attach, request, { deadlineMs: requestTimeoutMs, ...options })).url;
    },
    async portForward(podSandboxId, port, options) {
      return (await call(methods.portForward, { podSandboxId, port }, { deadlineMs: requestTimeoutMs, ...options }))
        .url;
    },
  };
}
