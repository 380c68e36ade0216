import { expect, test } from "bun:test";
import { type CriCode, CriError } from "../../cri/error.ts";
import { FilesError } from "../../host/fs/files.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import type { Action, ActionKind } from "../decide/pod/action.ts";
import { TranslateError } from "../translate/translate-error.ts";
import { explain } from "./failure-reasons.ts";

const id = "c" as ContainerId;
const sandboxId = "s" as SandboxId;
const why = "why";
const actions: Readonly<Record<ActionKind, Action>> = {
  prepareVolumes: { kind: "prepareVolumes" },
  pullImage: { kind: "pullImage", image: "i", why },
  runSandbox: { kind: "runSandbox", attempt: 0, crashes: 0, why },
  createContainer: {
    kind: "createContainer",
    name: "a",
    attempt: 0,
    sandboxId,
    podIPs: [],
    image: "i",
    imageRef: "r",
    crashes: 0,
    why,
  },
  startContainer: { kind: "startContainer", name: "a", id, attempt: 0 },
  runHook: { kind: "runHook", name: "a", id, attempt: 0 },
  runPreStop: { kind: "runPreStop", name: "a", id, gracePeriodSeconds: 1, why },
  stopContainer: { kind: "stopContainer", name: "a", id, gracePeriodSeconds: 1, why },
  removeContainer: { kind: "removeContainer", name: "a", id, why },
  stopSandbox: { kind: "stopSandbox", id: sandboxId, why },
  removeSandbox: { kind: "removeSandbox", id: sandboxId, why },
  removeVolumes: { kind: "removeVolumes", why },
  releaseIds: { kind: "releaseIds", why },
  removePodFiles: { kind: "removePodFiles", why },
};
const unknown = new CriError("UNKNOWN", "Verb", "it broke");

const reasons: Readonly<Record<ActionKind, string>> = {
  prepareVolumes: "FailedMount",
  pullImage: "ErrImagePull",
  runSandbox: "CreatePodSandboxError",
  createContainer: "CreateContainerError",
  startContainer: "RunContainerError",
  runHook: "PostStartHookError",
  runPreStop: "KillContainerError",
  stopContainer: "KillContainerError",
  removeContainer: "RemoveContainerError",
  stopSandbox: "KillPodSandboxError",
  removeSandbox: "KillPodSandboxError",
  removeVolumes: "FailedCleanup",
  releaseIds: "FailedCleanup",
  removePodFiles: "FailedCleanup",
};
for (const [kind, reason] of Object.entries(reasons))
  test(`a failed ${kind} is a ${reason}`, () => {
    expect(explain(actions[kind as ActionKind], unknown).reason).toBe(reason);
  });

const outages: readonly [code: CriCode, isOutage: boolean][] = [
  ["UNAVAILABLE", true],
  ["CANCELLED", true],
  ["UNKNOWN", false],
  ["DEADLINE_EXCEEDED", false],
  ["NOT_FOUND", false],
];
for (const [code, isOutage] of outages)
  test(`${code} is ${isOutage ? "nobody's fault: the runtime is away" : "a failure like any other"}`, () => {
    expect(explain(actions.startContainer, new CriError(code, "StartContainer", "x")).isOutage).toBe(isOutage);
  });

const rows: readonly [sentence: string, kind: ActionKind, error: unknown, reason: string, message: string][] = [
  ["of a start the runtime's text alone is kept", "startContainer", unknown, "RunContainerError", "it broke"],
  ["of a creation too", "createContainer", unknown, "CreateContainerError", "it broke"],
  ["of a pull too, where the runtime has no code for it", "pullImage", unknown, "ErrImagePull", "it broke"],
  [
    "and where it has one, that stands before it",
    "pullImage",
    new CriError("NOT_FOUND", "PullImage", "i: not found"),
    "ErrImagePull",
    "rpc error: code = NotFound desc = i: not found",
  ],
  [
    "Go's own spelling of a code is kept",
    "stopSandbox",
    new CriError("CANCELLED", "StopPodSandbox", "x"),
    "KillPodSandboxError",
    "rpc error: code = Canceled desc = x",
  ],
  [
    "a sandbox says what it was about",
    "runSandbox",
    unknown,
    "CreatePodSandboxError",
    "Failed to create pod sandbox: rpc error: code = Unknown desc = it broke",
  ],
  [
    "a pod that cannot be put into words names its own reason",
    "createContainer",
    new TranslateError("CreateContainerConfigError", "runs as root"),
    "CreateContainerConfigError",
    "runs as root",
  ],
  [
    "a file that fails",
    "prepareVolumes",
    new FilesError("ENOSPC", "/x", "/x is full"),
    "FailedMount",
    "Unable to attach or mount volumes: /x is full",
  ],
  [
    "a volume that cannot be had",
    "prepareVolumes",
    new TranslateError("FailedMount", 'MountVolume.SetUp failed for volume "v" : no'),
    "FailedMount",
    'MountVolume.SetUp failed for volume "v" : no',
  ],
  [
    "a RuntimeClass that is not there",
    "runSandbox",
    new TranslateError("CreatePodSandboxError", 'runtimeclass.node.k8s.io "x" not found'),
    "CreatePodSandboxError",
    'Failed to create pod sandbox: runtimeclass.node.k8s.io "x" not found',
  ],
  [
    "a hook that asks a port which is not there",
    "runHook",
    new TranslateError("ProbeError", 'container a has no port "web"'),
    "PostStartHookError",
    'container a has no port "web"',
  ],
  [
    "a registry that is away",
    "pullImage",
    new CriError("UNKNOWN", "PullImage", "RegistryUnavailable: 503"),
    "RegistryUnavailable",
    "RegistryUnavailable: 503",
  ],
  [
    "a signature that does not fit",
    "pullImage",
    new CriError("UNKNOWN", "PullImage", "SignatureValidationFailed: no key"),
    "SignatureValidationFailed",
    "SignatureValidationFailed: no key",
  ],
  [
    "a message that merely quotes such a word",
    "pullImage",
    new CriError("UNKNOWN", "PullImage", "failed to pull RegistryUnavailable:1"),
    "ErrImagePull",
    "failed to pull RegistryUnavailable:1",
  ],
  [
    "such a word of a runtime that has said more",
    "pullImage",
    new CriError("UNAVAILABLE", "PullImage", "RegistryUnavailable: 503"),
    "ErrImagePull",
    "rpc error: code = Unavailable desc = RegistryUnavailable: 503",
  ],
  [
    "such a word where nothing is pulled",
    "startContainer",
    new CriError("UNKNOWN", "Start", "RegistryUnavailable: x"),
    "RunContainerError",
    "RegistryUnavailable: x",
  ],
  ["something thrown that is no error", "startContainer", "a word", "RunContainerError", "a word"],
];
for (const [sentence, kind, error, reason, message] of rows)
  test(sentence, () => {
    expect(explain(actions[kind], error)).toMatchObject({ reason, message });
  });
