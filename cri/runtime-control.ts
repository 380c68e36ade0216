import {
  RuntimeConfigRequest,
  RuntimeConfigResponse,
  StatusRequest,
  StatusResponse,
  UpdateRuntimeConfigRequest,
  UpdateRuntimeConfigResponse,
  VersionRequest,
  VersionResponse,
} from "../proto/cri/gen/api.ts";
import type { Channel } from "./channel.ts";
import { CriError } from "./error.ts";
import { runtimeMethod } from "./rpc-method.ts";
import type { CriCallOptions, Runtime } from "./runtime.ts";

const methods = {
  version: runtimeMethod("Version", VersionRequest, VersionResponse),
  status: runtimeMethod("Status", StatusRequest, StatusResponse),
  updateRuntimeConfig: runtimeMethod("UpdateRuntimeConfig", UpdateRuntimeConfigRequest, UpdateRuntimeConfigResponse),
  runtimeConfig: runtimeMethod("RuntimeConfig", RuntimeConfigRequest, RuntimeConfigResponse),
};

/** The methods about the runtime itself: Version, Status, RuntimeConfig and UpdateRuntimeConfig. */
export interface RuntimeControl extends Pick<Runtime, "version" | "status"> {
  /** With the runtime's own `info`, whose content no standard defines. It may contain credentials: never log it. */
  verboseStatus(options?: CriCallOptions): Promise<StatusResponse>;
  /** Which cgroup driver the runtime uses. UNIMPLEMENTED in containerd before 2.0. */
  runtimeConfig(options?: CriCallOptions): Promise<RuntimeConfigResponse>;
  /**
   * Hands the runtime the address ranges of the node's pods, separated by a comma. containerd writes a network configuration with them if
   * it has a template (`conf_template`) and no network yet.
   */
  updateRuntimeConfig(podCidr: string, options?: CriCallOptions): Promise<void>;
}

/** `version` fails with UNIMPLEMENTED if the runtime does not support CRI v1. */
export function createRuntimeControl({ call }: Channel, requestTimeoutMs: number): RuntimeControl {
  return {
    async version(options) {
      // The kubelet sends this version of its runtime API; runtimes ignore it.
      const answer = await call(methods.version, { version: "0.1.0" }, { deadlineMs: requestTimeoutMs, ...options });
      if (answer.runtimeApiVersion === "v1") return answer;
      const runtime = `${answer.runtimeName} ${answer.runtimeVersion}`;
      const message = `${runtime} supports CRI ${JSON.stringify(answer.runtimeApiVersion)}, but v1 is required`;
      throw new CriError("UNIMPLEMENTED", methods.version.name, message);
    },
    async status(options) {
      return await call(methods.status, { verbose: false }, { deadlineMs: requestTimeoutMs, ...options });
    },
    async verboseStatus(options) {
      return await call(methods.status, { verbose: true }, { deadlineMs: requestTimeoutMs, ...options });
    },
    async runtimeConfig(options) {
      return await call(methods.runtimeConfig, {}, { deadlineMs: requestTimeoutMs, ...options });
    },
    async updateRuntimeConfig(podCidr, options) {
      const request = { runtimeConfig: { networkConfig: { podCidr } } };
      await call(methods.updateRuntimeConfig, request, { deadlineMs: requestTimeoutMs, ...options });
    },
  };
}
