import type { AppArmorProfile, Container, Pod } from "./gen/types.ts";
import { appArmorAnnotationPrefix } from "./well-known-names.ts";

const LOCALHOST = "localhost/";

/**
 * The AppArmor profile of a container: its own field, else its annotation, else the pod's field; undefined when none is
 * set. Like the kubelet, ignores an invalid annotation.
 */
export function appArmorProfileOf({ metadata, spec }: Pod, container: Container): AppArmorProfile | undefined {
  const annotated = profileOfAnnotation(metadata.annotations?.[`${appArmorAnnotationPrefix}${container.name}`]);
  return container.securityContext?.appArmorProfile ?? annotated ?? spec.securityContext?.appArmorProfile;
}

function profileOfAnnotation(text: string | undefined): AppArmorProfile | undefined {
  if (text === "runtime/default") return { type: "RuntimeDefault" };
  if (text === "unconfined") return { type: "Unconfined" };
  if (text?.startsWith(LOCALHOST)) return { type: "Localhost", localhostProfile: text.slice(LOCALHOST.length) };
  return undefined;
}
