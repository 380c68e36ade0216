import { createHash } from "node:crypto";
import { asRpcError, CriError } from "../../cri/error.ts";
import type { Runtime } from "../../cri/runtime.ts";
import type { Files } from "../../host/files.ts";
import { AuthConfig } from "../../proto/cri/gen/api.ts";
import { allContainers } from "../../proto/kubernetes/containers.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { imageOf } from "../decide/image.ts";
import type { ObservedPod } from "../decide/observed.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import { loginsFor, type RegistryLogin } from "../translate/registry-logins.ts";
import { sandboxConfig } from "../translate/sandbox-config.ts";
import { type LoginFiles, readNodeLogins } from "./node-logins.ts";
import type { SharedPulls } from "./shared-pulls.ts";

export interface PullSettings {
  readonly runtime: Pick<Runtime, "pullImage">;
  readonly pulls: SharedPulls;
  readonly machine: Pick<Files, "read">;
  readonly loginFiles: LoginFiles;
  readonly facts: () => NodeFacts;
}

export interface PullScene {
  readonly pod: Pod;
  readonly observed: Pick<ObservedPod, "sandboxes">;
  readonly image: string;
  /** Called when the pull has its place. */
  readonly began: () => void;
}

const FIRST_SANDBOX = { attempt: 0, crashes: 0 };

/**
 * Pulls an image for a pod, with each login that may hold for it until one works; without any, as anybody. Shared with the other pods that
 * need it by the same logins. Resolves with its reference; rejects with `CriError` or `TranslateError`.
 */
export async function pullImage(settings: PullSettings, scene: PullScene, signal: AbortSignal): Promise<string> {
  const { runtime, pulls, machine, loginFiles, facts } = settings;
  const { pod, observed, image, began } = scene;
  const node = facts();
  const [sandbox = FIRST_SANDBOX] = observed.sandboxes;
  const config = sandboxConfig(pod, sandbox, node);
  const logins = loginsFor(pod, image, node.cluster?.referents, await readNodeLogins(machine, loginFiles));
  const mustBeNew = allContainers(pod.spec).some(
    (each) => each.imagePullPolicy === "Always" && imageOf(each) === image,
  );
  const pull = (ended: AbortSignal) =>
    pullWithAny(logins, (auth) => runtime.pullImage(image, auth, config, { signal: ended }));
  return await pulls.pull({ image, sharedBy: fingerprintOf(logins), mustBeNew, pull, began }, signal);
}

/** Whoever pulls by the same logins may have what the other one pulls. */
function fingerprintOf(logins: readonly RegistryLogin[]): string {
  return logins.length === 0 ? "" : createHash("sha256").update(JSON.stringify(logins)).digest("hex");
}

async function pullWithAny(
  logins: readonly RegistryLogin[],
  pull: (auth: AuthConfig | undefined) => Promise<string>,
): Promise<string> {
  if (logins.length === 0) return await pull(undefined);
  const failures: CriError[] = [];
  for (const { username, password } of logins)
    try {
      return await pull(AuthConfig.fromPartial({ username, password }));
    } catch (error) {
      const isRefusal = error instanceof CriError && error.code !== "UNAVAILABLE" && error.code !== "CANCELLED";
      if (!isRefusal) throw error;
      failures.push(error);
    }
  throw together(failures);
}

/** As the kubelet lists them: each once, in brackets where they are several. */
function together(failures: readonly CriError[]): CriError | undefined {
  const words = new Set(failures.map((error) => (error.code === "UNKNOWN" ? error.details : asRpcError(error))));
  return words.size > 1 ? new CriError("UNKNOWN", "PullImage", `[${[...words].join(", ")}]`) : failures[0];
}
