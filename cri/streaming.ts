import {
  AttachRequest,
  AttachResponse,
  ExecRequest,
  ExecResponse,
  PortForwardRequest,
  PortForwardResponse,
} from "../proto/cri/gen/api.ts";
import type { Channel } from "./channel.ts";
import { runtimeMethod } from "./rpc-method.ts";
import type { Runtime } from "./runtime.ts";

const methods = {
  exec: runtimeMethod("Exec", ExecRequest, ExecResponse),
  attach: runtimeMethod("Attach", AttachRequest, AttachResponse),
  portForward: runtimeMethod("PortForward", PortForwardRequest, PortForwardResponse),
};

export type Streaming = Pick<Runtime, "exec" | "attach" | "portForward">;

/** The methods that prepare a session with the runtime's streaming server. `requestTimeoutMs` is the deadline. */
export function createStreaming({ call }: Channel, requestTimeoutMs: number): Streaming {
  return {
    async exec(containerId, cmd, streams, options) {
      const request = { containerId, cmd, ...streams };
      return (await call(methods.exec, request, { deadlineMs: requestTimeoutMs, ...options })).url;
    },
    async attach(containerId, streams, options) {
      const request = { containerId, ...streams };
      return (await call(methods.attach, request, { deadlineMs: requestTimeoutMs, ...options })).url;
    },
    async portForward(podSandboxId, port, options) {
      const request = { podSandboxId, port };
      return (await call(methods.portForward, request, { deadlineMs: requestTimeoutMs, ...options })).url;
    },
  };
}
