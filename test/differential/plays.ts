import { beginnings } from "./beginnings.ts";
import { encounters } from "./encounters.ts";
import { lives } from "./lives.ts";
import type { Play } from "./pod.ts";
import { rights } from "./rights.ts";
import { views } from "./views.ts";

/** All pods that are run beside the reference kubelet. Those of `lives` begin, since some of them take longest. */
export const plays: readonly Play[] = [...lives, ...beginnings, ...encounters, ...rights, ...views];
