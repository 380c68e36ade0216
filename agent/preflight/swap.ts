import type { Machine } from "../../host/machine.ts";
import { joinWithAnd } from "../../proto/join-with-and.ts";
import type { Config } from "../config/config.ts";
import { isOlderKernel } from "./kernel-version.ts";
import { StartError } from "./start-error.ts";

/**
 * Refuses to start while swap is on, unless `failSwapOn` is false: the memory limits of pods would not hold as their
 * authors expect. Throws `StartError` that names the swap and how to turn it off. Rule: the kubelet's IsSwapOn.
 */
export function checkSwap({ failSwapOn }: Pick<Config, "failSwapOn">, { swapAreas }: Pick<Machine, "swapAreas">): void {
  if (!failSwapOn || swapAreas.length === 0) return;
  throw new StartError(
    `swap is on (${joinWithAnd(swapAreas)}), and failSwapOn is true: ${swapRemedy(swapAreas)}, or set failSwapOn: false; pods then get swap only with memorySwap.swapBehavior: LimitedSwap`,
  );
}

/** The first release of Linux that keeps a tmpfs out of swap. */
const NOSWAP_VERSION = [6, 4] as const;

/**
 * The kubelet's event of a node that may swap out volumes in memory, such as Secrets: swap is on, and the kernel does not know
 * the option `noswap` of tmpfs. Undefined if it does, or without swap.
 */
export function swappedVolumesEvent({ swapAreas, kernelVersion }: Pick<Machine, "swapAreas" | "kernelVersion">) {
  if (swapAreas.length === 0 || !isOlderKernel(kernelVersion, NOSWAP_VERSION)) return undefined;
  return {
    type: "Warning",
    reason: "PossibleMemoryBackedVolumesOnDisk",
    message:
      "The tmpfs noswap option is not supported. Memory-backed volumes (e.g. secrets, emptyDirs, etc.) might be swapped to disk and should no longer be considered secure.",
  } as const;
}

/**
 * How to turn these swap areas off for good. Raspberry Pi OS sets up the file /var/swap up to Debian 12, and from Debian
 * 13 on zram, which is in no /etc/fstab.
 */
export function swapRemedy(areas: readonly string[]): string {
  const zram = areas.some((area) => /^\/dev\/zram\d/.test(area));
  const remedies = [
    "run swapoff -a and remove the swap from /etc/fstab",
    ...(zram
      ? ["for the zram of Raspberry Pi OS, set Mechanism=none under [Main] in /etc/rpi/swap.conf and reboot"]
      : []),
    ...(areas.includes("/var/swap") ? ["on Raspberry Pi OS, run systemctl disable --now dphys-swapfile"] : []),
  ];
  const onlyZram = zram && areas.every((area) => area.startsWith("/dev/zram"));
  return (onlyZram ? remedies.slice(1) : remedies).join("; ");
}
