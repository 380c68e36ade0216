import { expect, test } from "bun:test";
import { type CriCode, CriError } from "../../cri/error.ts";
import { FilesError } from "../../host/fs/files.ts";
import { exampleActions } from "../../test/fakes/example-actions.ts";
import type { ActionKind } from "../decide/pod/action.ts";
import { TranslateError } from "../translate/translate-error.ts";
import { toFailure } from "./failure-reasons.ts";

const unknown = new CriError("UNKNOWN", "Verb", "it broke");

const reasons: Readonly<Record<ActionKind, string>> = {
  makeResource: "FailedMount",
  mountVolume: "FailedMount",
  updateVolume: "FailedMount",
  pullImage: "ErrImagePull",
  runSandbox: "CreatePodSandboxError",
  createContainer: "CreateContainerError",
  startContainer: "RunContainerError",
  runPostStart: "PostStartHookError",
  runPreStop: "KillContainerError",
  stopContainer: "KillContainerError",
  removeContainer: "RemoveContainerError",
  stopSandbox: "KillPodSandboxError",
  removeSandbox: "KillPodSandboxError",
  writePodCgroup: "FailedCreatePodContainer",
  removeResource: "FailedCleanup",
  updateContainerResources: "ResizePodInPlaceError",
  updatePodSandboxResources: "ResizePodInPlaceError",
};
for (const [kind, reason] of Object.entries(reasons))
  test(`a failed ${kind} has the reason ${reason}`, () => {
    expect(toFailure(exampleActions[kind as ActionKind], unknown).reason).toBe(reason);
  });

const outages: readonly [code: CriCode, isOutage: boolean][] = [
  ["UNAVAILABLE", true],
  ["CANCELLED", true],
  ["UNKNOWN", false],
  ["DEADLINE_EXCEEDED", false],
  ["NOT_FOUND", false],
];
for (const [code, isOutage] of outages)
  test(`the CRI error ${code} is ${isOutage ? "an outage of the runtime" : "an ordinary failure"}`, () => {
    expect(toFailure(exampleActions.startContainer, new CriError(code, "StartContainer", "x")).isOutage).toBe(isOutage);
  });

test("a cgroup path in the form of the other driver has the cure beside the runtime's words", () => {
  const refused =
    'runc create failed: expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "/kubepods/x" instead';
  const { message } = toFailure(exampleActions.runSandbox, new CriError("UNKNOWN", "RunPodSandbox", refused));
  expect(message).toMatchInlineSnapshot(
    `"Failed to create pod sandbox: rpc error: code = Unknown desc = runc create failed: expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "/kubepods/x" instead; the container runtime and this agent use different cgroup drivers: set cgroupDriver to the runtime's (systemd if its configuration has SystemdCgroup = true, else cgroupfs), or change the runtime's and restart it; berth doctor shows both"`,
  );
});

const rows: readonly [sentence: string, kind: ActionKind, error: unknown, reason: string, message: string][] = [
  [
    "a failed start has the runtime's text without the gRPC prefix",
    "startContainer",
    unknown,
    "RunContainerError",
    "it broke",
  ],
  ["of a creation too", "createContainer", unknown, "CreateContainerError", "it broke"],
  [
    "a failed pull with the code UNKNOWN has the runtime's text without the gRPC prefix",
    "pullImage",
    unknown,
    "ErrImagePull",
    "it broke",
  ],
  [
    "a failed pull with another code has the gRPC prefix",
    "pullImage",
    new CriError("NOT_FOUND", "PullImage", "i: not found"),
    "ErrImagePull",
    "rpc error: code = NotFound desc = i: not found",
  ],
  [
    "the gRPC prefix spells codes like Go",
    "stopSandbox",
    new CriError("CANCELLED", "StopPodSandbox", "x"),
    "KillPodSandboxError",
    "rpc error: code = Canceled desc = x",
  ],
  [
    "a failed sandbox has the kubelet's prefix",
    "runSandbox",
    unknown,
    "CreatePodSandboxError",
    "Failed to create pod sandbox: rpc error: code = Unknown desc = it broke",
  ],
  [
    "a TranslateError has its own reason",
    "createContainer",
    new TranslateError("CreateContainerConfigError", "runs as root"),
    "CreateContainerConfigError",
    "runs as root",
  ],
  [
    "a file error while volumes are prepared has the kubelet's prefix",
    "makeResource",
    new FilesError("ENOSPC", "/x", "/x is full"),
    "FailedMount",
    "Unable to attach or mount volumes: /x is full",
  ],
  [
    "an unsupported volume has its own message",
    "makeResource",
    new TranslateError("FailedMount", 'MountVolume.SetUp failed for volume "v" : no'),
    "FailedMount",
    'MountVolume.SetUp failed for volume "v" : no',
  ],
  [
    "a missing RuntimeClass has the sandbox reason",
    "runSandbox",
    new TranslateError("CreatePodSandboxError", 'runtimeclass.node.k8s.io "x" not found'),
    "CreatePodSandboxError",
    'Failed to create pod sandbox: runtimeclass.node.k8s.io "x" not found',
  ],
  [
    "a hook with an unknown port has the hook reason",
    "runPostStart",
    new TranslateError("ProbeError", 'container a has no port "web"'),
    "PostStartHookError",
    'container a has no port "web"',
  ],
  [
    "a pull keeps the reason RegistryUnavailable of the runtime",
    "pullImage",
    new CriError("UNKNOWN", "PullImage", "RegistryUnavailable: 503"),
    "RegistryUnavailable",
    "RegistryUnavailable: 503",
  ],
  [
    "a pull keeps the reason SignatureValidationFailed of the runtime",
    "pullImage",
    new CriError("UNKNOWN", "PullImage", "SignatureValidationFailed: no key"),
    "SignatureValidationFailed",
    "SignatureValidationFailed: no key",
  ],
  [
    "a pull message that only contains such a reason has ErrImagePull",
    "pullImage",
    new CriError("UNKNOWN", "PullImage", "failed to pull RegistryUnavailable:1"),
    "ErrImagePull",
    "failed to pull RegistryUnavailable:1",
  ],
  [
    "such a reason with a gRPC code other than UNKNOWN has ErrImagePull",
    "pullImage",
    new CriError("UNAVAILABLE", "PullImage", "RegistryUnavailable: 503"),
    "ErrImagePull",
    "rpc error: code = Unavailable desc = RegistryUnavailable: 503",
  ],
  [
    "such a reason in an action other than a pull is ignored",
    "startContainer",
    new CriError("UNKNOWN", "Start", "RegistryUnavailable: x"),
    "RunContainerError",
    "RegistryUnavailable: x",
  ],
  ["a thrown string becomes the message", "startContainer", "a word", "RunContainerError", "a word"],
];
for (const [sentence, kind, error, reason, message] of rows)
  test(sentence, () => {
    expect(toFailure(exampleActions[kind], error)).toMatchObject({ reason, message });
  });
