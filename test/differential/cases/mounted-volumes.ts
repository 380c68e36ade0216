import { busyboxImage } from "../../bed/images/images.ts";
import { noVolumeCase, volumeCase } from "./content-volumes.ts";
import { type PodCase, waitsWithSandbox } from "./pod-case.ts";

const imageOf = (reference: string, pullPolicy: "IfNotPresent" | "Never") => ({
  v: { image: { reference, pullPolicy } },
});

/** Volumes that the machine or the runtime of the tests cannot mount: what the pods say. */
export const mountedVolumeCases: readonly PodCase[] = [
  noVolumeCase("nfs", { v: { nfs: { server: "192.0.2.1", path: "/data", readOnly: true } } }),
  noVolumeCase("huge-pages", { v: { emptyDir: { medium: "HugePages-2Mi" } } }),
  {
    ...volumeCase("image-volume-refused", [], imageOf(busyboxImage, "IfNotPresent")),
    until: waitsWithSandbox("CreateContainerError"),
  },
  {
    ...volumeCase("image-volume-never-there", [], imageOf("berth.test/absent:1", "Never")),
    until: waitsWithSandbox("ErrImageNeverPull"),
  },
];
