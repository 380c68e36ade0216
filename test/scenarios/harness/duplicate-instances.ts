import type { RuntimeChange } from "../../fakes/runtime-events.ts";

/** One line each time a pod had more than one live sandbox, or a container more than one live instance. */
export function duplicateInstances(timeline: readonly RuntimeChange[]): readonly string[] {
  const live = new Map<string, Set<string>>();
  return timeline.flatMap(({ kind, change, id, role }) => {
    const key = `${kind} ${role}`;
    const ids = live.get(key) ?? new Set();
    live.set(key, ids);
    if (change === "created") ids.add(id);
    if (change === "stopped" || change === "deleted") ids.delete(id);
    return change === "created" && ids.size > 1 ? [`Live at once as ${key}: ${[...ids].join(", ")}`] : [];
  });
}
