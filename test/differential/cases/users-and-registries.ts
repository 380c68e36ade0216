import type { Container, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import {
  hasRepeatedEvent,
  isReady,
  NAMED_USER_IMAGE,
  NUMERIC_USER_IMAGE,
  type PodCase,
  PRIVATE_REGISTRY,
  viewCase,
  waitsWithSandbox,
} from "./pod-case.ts";

const notRoot = { securityContext: { runAsNonRoot: true } };

/** A pod whose image is in the registry that requires credentials. */
const privateImageCase = (
  name: string,
  image: string,
  until: PodCase["until"],
  container: Partial<Container> = {},
  ...pullSecrets: readonly string[]
): PodCase => ({
  name,
  container: { image: `${PRIVATE_REGISTRY}/berth.test/${image}:1`, ...container },
  spec: { imagePullSecrets: pullSecrets.map((each) => ({ name: each })) },
  until,
});
const cannotPull = waitsWithSandbox("ImagePullBackOff");

const withLabel: Partial<PodSpec> = { securityContext: { seLinuxOptions: { level: "s0:c123,c456" } } };

/** The users that containers run as, and the private images that they may use. */
export const identityCases: readonly PodCase[] = [
  viewCase("user-of-its-image", ["id", "status"], { image: NUMERIC_USER_IMAGE, ...notRoot }),
  viewCase("user-of-its-image-by-name", ["id", "status"], { image: NAMED_USER_IMAGE }),
  viewCase("user-overrides-image", ["id"], {
    image: NAMED_USER_IMAGE,
    securityContext: { runAsNonRoot: true, runAsUser: 1234 },
  }),
  {
    ...viewCase("root-by-name", [], { image: NAMED_USER_IMAGE, ...notRoot }),
    until: waitsWithSandbox("CreateContainerConfigError"),
  },
  { ...viewCase("user-namespace", [], {}, { hostUsers: false }), until: hasRepeatedEvent("FailedCreatePodSandBox") },
  viewCase("selinux-label", ["id", "mounts"], {}, withLabel),
  privateImageCase("private-image", "private", isReady, {}, "private"),
  privateImageCase("private-image-by-dockercfg-secret", "older", isReady, {}, "private-older"),
  privateImageCase("private-image-by-the-second-secret", "second", isReady, {}, "private-wrong", "private"),
  privateImageCase("pull-without-credentials", "kept", cannotPull),
  privateImageCase("pull-with-wrong-credentials", "kept", cannotPull, {}, "private-wrong"),
];
