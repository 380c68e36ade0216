import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage } from "../../bed/images/images.ts";
import { script } from "../manifest.ts";
import { barePod, type Manifest } from "./api-objects.ts";

const container = (name: string, text: string, more: Partial<Container> = {}): Container => ({
  ...{ name, image: busyboxImage, imagePullPolicy: "IfNotPresent", command: [...script(text)] },
  ...more,
});

const MB = 1 << 20;

/**
 * The pod `busy`. Its container `calculates` takes all CPU time of its limit; `remembers` holds so many MiB of memory, and is
 * ready when it does.
 */
export function busyPod({ cpuLimit, heldMb }: { readonly cpuLimit: string; readonly heldMb: number }): Manifest {
  const remember = `kept=$(head -c ${heldMb * MB} /dev/zero | tr '\\0' x); touch /kept; while true; do sleep 1; done`;
  const containers = [
    container("calculates", "while true; do :; done", { resources: { limits: { cpu: cpuLimit } } }),
    container("remembers", remember, {
      readinessProbe: { exec: { command: ["test", "-e", "/kept"] }, timeoutSeconds: 30 },
    }),
  ];
  return barePod("busy", {}, { containers });
}
