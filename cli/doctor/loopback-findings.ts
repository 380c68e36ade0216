import { joinWithAnd } from "../../proto/join-with-and.ts";
import { shellWord } from "../../proto/shell-word.ts";
import { type Judge, judged, problemFinding } from "./finding.ts";

const LOOPBACK = { check: "network", subject: "the runtime's plugin loopback" } as const;

/** Whether the runtime finds the plugin that it executes for `lo` of each pod, beside the plugins of the network. */
export const judgeLoopback: Judge = (facts) =>
  judged(facts, "loopback", LOOPBACK, (loopback) => {
    if (loopback === undefined || loopback.found?.isExecutable === true) return [];
    const { binDirs, found, isOptional } = loopback;
    const problem =
      found === undefined
        ? `the plugin loopback, and it is not in ${joinWithAnd(binDirs)}`
        : `${found.path}, and it is not executable`;
    return [
      problemFinding(
        "network",
        `the container runtime itself needs ${problem}: pods without host network cannot start`,
        `${found === undefined ? getLoopback(binDirs[0] ?? "") : `chmod +x ${shellWord(found.path)}`}${isOptional ? OR_INTERNAL : ""}`,
      ),
    ];
  });

const getLoopback = (binDir: string) =>
  `put loopback into ${binDir} (Debian: apt-get install containernetworking-plugins && ln -s /usr/lib/cni/loopback ${shellWord(`${binDir}/`)})`;

const OR_INTERNAL = ", or set use_internal_loopback = true in the runtime's configuration and restart it";
