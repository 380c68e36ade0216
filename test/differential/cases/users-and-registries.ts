import type { Container, PodSpec } from "../../../proto/kubernetes/gen/types.ts";
import {
  isReady,
  isToldOf,
  OF_NUMBER,
  OF_SAILOR,
  type Play,
  PRIVATE_REGISTRY,
  viewer,
  waitsInPlace,
} from "./pod-case.ts";

const notRoot = { securityContext: { runAsNonRoot: true } };

/** A pod whose image is in a registry that asks who one is. */
const privately = (
  name: string,
  image: string,
  until: Play["until"],
  container: Partial<Container> = {},
  ...pullSecrets: readonly string[]
): Play => ({
  name,
  container: { image: `${PRIVATE_REGISTRY}/berth.test/${image}:1`, ...container },
  spec: { imagePullSecrets: pullSecrets.map((each) => ({ name: each })) },
  until,
});
const cannotPull = waitsInPlace("ImagePullBackOff");

const withLabel: Partial<PodSpec> = { securityContext: { seLinuxOptions: { level: "s0:c123,c456" } } };

/** Whom containers run as, and what they may use. */
export const rights: readonly Play[] = [
  viewer("user-of-its-image", ["id", "status"], { image: OF_NUMBER, ...notRoot }),
  viewer("user-of-its-image-by-name", ["id", "status"], { image: OF_SAILOR }),
  viewer("user-over-that-of-its-image", ["id"], {
    image: OF_SAILOR,
    securityContext: { runAsNonRoot: true, runAsUser: 1234 },
  }),
  {
    ...viewer("root-by-name", [], { image: OF_SAILOR, ...notRoot }),
    until: waitsInPlace("CreateContainerConfigError"),
  },
  { ...viewer("users-of-its-own", [], {}, { hostUsers: false }), until: isToldOf("FailedCreatePodSandBox") },
  viewer("label-of-the-pod", ["id", "mounts"], {}, withLabel),
  privately("private-image", "private", isReady, {}, "private"),
  privately("private-image-by-an-older-secret", "older", isReady, {}, "private-older"),
  privately("private-image-by-the-second-secret", "second", isReady, {}, "private-wrong", "private"),
  privately("pull-without-a-login", "kept", cannotPull),
  privately("pull-by-a-wrong-login", "kept", cannotPull, {}, "private-wrong"),
];
