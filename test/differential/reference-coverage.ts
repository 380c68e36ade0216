import { cgroupsRows } from "./reference-rows/cgroup-rows.ts";
import { containersRows, imagesRows, sandboxesRows } from "./reference-rows/container-rows.ts";
import { admissionRows, nodeRows, podLifecycleRows, statusesRows } from "./reference-rows/pod-rows.ts";
import { probesRows } from "./reference-rows/probe-rows.ts";
import type { ReferenceRow } from "./reference-rows/reference-row.ts";
import { resizesRows } from "./reference-rows/resize-rows.ts";
import { terminationsRows } from "./reference-rows/termination-rows.ts";
import { volumesRows } from "./reference-rows/volume-rows.ts";

/** The rows of the reference, first and last, that this list covers. */
export const COVERED_ROWS: readonly (readonly [first: number, last: number])[] = [
  [20, 20],
  [53, 149],
  [170, 182],
  [185, 186],
];

/** All rows in order. */
export const referenceCoverage: readonly ReferenceRow[] = [
  ...nodeRows,
  ...admissionRows,
  ...podLifecycleRows,
  ...statusesRows,
  ...imagesRows,
  ...sandboxesRows,
  ...containersRows,
  ...terminationsRows,
  ...resizesRows,
  ...probesRows,
  ...cgroupsRows,
  ...volumesRows,
];
