import {
  type RuntimeConfig,
  RuntimeConfigRequest,
  RuntimeConfigResponse,
  StatusRequest,
  StatusResponse,
  UpdateRuntimeConfigRequest,
  UpdateRuntimeConfigResponse,
  VersionRequest,
  VersionResponse,
} from "../proto/cri/gen/api.ts";
import type { Connection } from "./channel.ts";
import { CriError } from "./error.ts";
import { runtimeVerb } from "./rpc-method.ts";
import type { CallOptions, Runtime } from "./runtime.ts";

const verbs = {
  version: runtimeVerb("Version", VersionRequest, VersionResponse),
  status: runtimeVerb("Status", StatusRequest, StatusResponse),
  runtimeConfig: runtimeVerb("RuntimeConfig", RuntimeConfigRequest, RuntimeConfigResponse),
  updateRuntimeConfig: runtimeVerb("UpdateRuntimeConfig", UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse),
};

/** The verbs about the runtime as a whole. */
export interface Node extends Pick<Runtime, "version" | "status"> {
  /** Which cgroup driver the runtime uses. UNIMPLEMENTED in containerd before 2.0. */
  runtimeConfig(options?: CallOptions): Promise<RuntimeConfigResponse>;
  updateRuntimeConfig(config: RuntimeConfig, options?: CallOptions): Promise<void>;
}

/** `version` fails with UNIMPLEMENTED where the runtime does not speak CRI v1. */
export function createNode({ call }: Connection, requestTimeoutMs: number): Node {
  return {
    async version(options) {
      // What the kubelet sends: the version of its own runtime API, which no runtime looks at.
      const answer = await call(verbs.version, { version: "0.1.0" }, { deadlineMs: requestTimeoutMs, ...options });
      if (answer.runtimeApiVersion === "v1") return answer;
      const runtime = `${answer.runtimeName} ${answer.runtimeVersion}`;
      const message = `${runtime} speaks CRI ${JSON.stringify(answer.runtimeApiVersion)}, but v1 is needed`;
      throw new CriError("UNIMPLEMENTED", verbs.version.name, message);
    },
    async status(options) {
      return await call(verbs.status, { verbose: false }, { deadlineMs: requestTimeoutMs, ...options });
    },
    async runtimeConfig(options) {
      return await call(verbs.runtimeConfig, {}, { deadlineMs: requestTimeoutMs, ...options });
    },
    async updateRuntimeConfig(runtimeConfig, options) {
      await call(verbs.updateRuntimeConfig, { runtimeConfig }, { deadlineMs: requestTimeoutMs, ...options });
    },
  };
}
