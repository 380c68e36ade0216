import { pair } from "../cluster/cluster-figures.ts";
import type { Figure } from "../figures.ts";
import { medianOf } from "../statistics.ts";
import type { OwnShareResult } from "./own-share-bench.ts";
import { drawOwnSteps, drawTimeline, middleStart, ownShareMs } from "./start-timeline.ts";
import type { StartTimeline } from "./step.ts";

/** How long a start takes, and which part of it the agents take for themselves. */
export function ownShareFigures({ starts }: OwnShareResult): readonly Figure[] {
  const row = (what: string, read: (start: StartTimeline) => number, most?: number): Figure => ({
    ...pair(`one pod, ${what}`, "ms", starts, (all) => medianOf(all.map(read)), most),
    isSingle: true,
  });
  return [
    row("created → Ready", ({ readyMs }) => readyMs),
    row("its CRI calls", (start) => start.readyMs - ownShareMs(start)),
    row("created → Ready, less its CRI calls", ownShareMs, 0.5),
  ];
}

/** The time lines of one start of each agent, as a block of Markdown: Berth's is of a traced one, with the sum of its steps. */
export function drawOwnShares({ starts, traced }: OwnShareResult): string {
  const drawn = Object.entries({ berth: traced, kubelet: starts.kubelet }).flatMap(([agent, all]) => {
    const middle = middleStart(all);
    return middle === undefined ? [] : [drawTimeline(agent, middle)];
  });
  return `\`\`\`\n${[...drawn, drawOwnSteps("berth", traced)].join("\n\n")}\n\`\`\``;
}
