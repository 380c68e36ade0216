import type { AppArmorProfile, Container, Pod } from "./gen/types.ts";

/** Before there were fields, an annotation of the pod named the profile of each container. The API server makes fields of them; manifests may not have any. */
const ANNOTATION = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST = "localhost/";

/**
 * The AppArmor profile of a container: its own, else that of its annotation, else the pod's; undefined where nobody names one. What an
 * annotation cannot mean is none, as with the kubelet.
 */
export function appArmorProfileOf({ metadata, spec }: Pod, container: Container): AppArmorProfile | undefined {
  const annotated = ofAnnotation(metadata.annotations?.[`${ANNOTATION}${container.name}`]);
  return container.securityContext?.appArmorProfile ?? annotated ?? spec.securityContext?.appArmorProfile;
}

function ofAnnotation(text: string | undefined): AppArmorProfile | undefined {
  if (text === "runtime/default") return { type: "RuntimeDefault" };
  if (text === "unconfined") return { type: "Unconfined" };
  if (text?.startsWith(LOCALHOST)) return { type: "Localhost", localhostProfile: text.slice(LOCALHOST.length) };
  return undefined;
}
