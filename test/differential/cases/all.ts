import { views } from "./container-environment.ts";
import { encounters } from "./interaction.ts";
import { lives } from "./lifecycle.ts";
import type { Play } from "./pod-case.ts";
import { beginnings } from "./startup.ts";
import { rights } from "./users-and-registries.ts";

/** All pods that are run beside the reference kubelet. Those of `lives` begin, since some of them take longest. */
export const plays: readonly Play[] = [...lives, ...beginnings, ...encounters, ...rights, ...views];
