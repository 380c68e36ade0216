import type { Config } from "../../agent/config/config.ts";
import { type RuntimeCgroupDriver, runtimeCgroupDriver } from "../../cri/cgroup-driver.ts";
import { createRuntime } from "../../cri/client.ts";
import {
  type CniFolders,
  containerdCni,
  containerdConfig,
  containerdLoopback,
  type LoopbackSetup,
} from "../../cri/containerd-config.ts";
import { CriError } from "../../cri/error.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";

/** What a container runtime says of itself. */
export interface RuntimeFacts {
  readonly name: string;
  readonly version: string;
  readonly conditions: readonly {
    readonly type: string;
    readonly status: boolean;
    readonly reason: string;
    readonly message: string;
  }[];
  /** Undefined if the runtime does not say. */
  readonly cgroupDriver: RuntimeCgroupDriver | undefined;
  /** Where the runtime reads its network configuration; undefined if it does not say. */
  readonly cni: CniFolders | undefined;
  /** Undefined if the runtime does not say. */
  readonly loopback: LoopbackSetup | undefined;
  /** A folder on the file system of its images. */
  readonly imageFolder: string | undefined;
}

/** The facts, or why the runtime does not answer: gRPC's code (`UNAVAILABLE`, `UNIMPLEMENTED` …) and the message. */
export type RuntimeAnswer =
  | { readonly isReachable: true; readonly facts: RuntimeFacts }
  | { readonly isReachable: false; readonly code: string; readonly message: string };

type Where = Pick<Config, "containerRuntimeEndpoint" | "imageServiceEndpoint">;

/** Asks the runtime of this configuration once, for `berth doctor`. Every call has the timeout. */
export async function readRuntimeFacts(
  { containerRuntimeEndpoint: endpoint, imageServiceEndpoint: imageEndpoint }: Where,
  { clock, log, requestTimeoutMs }: { readonly clock: Clock; readonly log: Log; readonly requestTimeoutMs: number },
): Promise<RuntimeAnswer> {
  const runtime = createRuntime({
    endpoint,
    imageEndpoint,
    requestTimeoutMs,
    clock,
    log,
    random: Math.random,
  });
  try {
    const { runtimeName: name, runtimeVersion: version } = await runtime.version();
    const [status, config, images] = await Promise.all([
      runtime.verboseStatus(),
      runtime.runtimeConfig().catch(onlyCri),
      runtime.imageFsInfo().catch(onlyCri),
    ]);
    const own = containerdConfig(status);
    const facts = {
      name,
      version,
      conditions: status.status?.conditions ?? [],
      cgroupDriver: runtimeCgroupDriver(config, status),
      cni: containerdCni(own),
      loopback: containerdLoopback(own),
      imageFolder: images?.imageFilesystems[0]?.fsId?.mountpoint,
    };
    return { isReachable: true, facts };
  } catch (error) {
    if (!(error instanceof CriError)) throw error;
    return { isReachable: false, code: error.code, message: error.details };
  } finally {
    runtime.close();
  }
}

/** For facts that older runtimes do not know. */
function onlyCri(error: unknown): undefined {
  if (!(error instanceof CriError)) throw error;
  return undefined;
}
