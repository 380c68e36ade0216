import {
  AttachRequest,
  AttachResponse,
  ExecRequest,
  ExecResponse,
  PortForwardRequest,
  PortForwardResponse,
} from "../proto/cri/gen/api.ts";
import type { SandboxId } from "../proto/ids.ts";
import type { Connection } from "./channel.ts";
import { runtimeVerb } from "./rpc-method.ts";
import type { CallOptions } from "./runtime.ts";

const verbs = {
  exec: runtimeVerb("Exec", ExecRequest, ExecResponse),
  attach: runtimeVerb("Attach", AttachRequest, AttachResponse),
  portForward: runtimeVerb("PortForward", PortForwardRequest, PortForwardResponse),
};

/** Streams into containers. Each is answered with a URL of the runtime's own streaming server. */
export interface Streaming {
  exec(request: ExecRequest, options?: CallOptions): Promise<string>;
  attach(request: AttachRequest, options?: CallOptions): Promise<string>;
  portForward(id: SandboxId, ports: readonly number[], options?: CallOptions): Promise<string>;
}

/** `requestTimeoutMs` is the deadline. */
export function createStreaming({ call }: Connection, requestTimeoutMs: number): Streaming {
  return {
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
