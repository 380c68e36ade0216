import { claimCases } from "./claims.ts";
import { containerEnvironmentCases } from "./container-environment.ts";
import { contentVolumeCases } from "./content-volumes.ts";
import { directoryVolumeCases } from "./directory-volumes.ts";
import { hookCases } from "./hooks.ts";
import { interactionCases } from "./interaction.ts";
import { lifecycleCases } from "./lifecycle.ts";
import { mountedVolumeCases } from "./mounted-volumes.ts";
import type { PodCase } from "./pod-case.ts";
import { rejectedCases } from "./rejections.ts";
import { resourceCases } from "./resources.ts";
import { startupCases } from "./startup.ts";
import { subPathCases } from "./sub-paths.ts";
import { identityCases } from "./users-and-registries.ts";

/** All pods that run beside the reference kubelet. The lifecycle cases are first, because some of them take longest. */
export const allCases: readonly PodCase[] = [
  ...lifecycleCases,
  ...contentVolumeCases,
  ...directoryVolumeCases,
  ...subPathCases,
  ...claimCases,
  ...mountedVolumeCases,
  ...startupCases,
  ...hookCases,
  ...rejectedCases,
  ...interactionCases,
  ...identityCases,
  ...containerEnvironmentCases,
  ...resourceCases,
];
