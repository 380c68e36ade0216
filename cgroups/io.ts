import type { CgroupIoStats } from "../proto/cgroup/stats.ts";
import { type Controller, parseCount, unreadable } from "./controller.ts";

/** `io.stat`; Kubernetes limits no IO. https://docs.kernel.org/admin-guide/cgroup-v2.html#io */
export const io: Controller = {
  limitFiles: () => [],
  limits: () => ({}),
  stats(read) {
    const text = read("io.stat");
    if (text === undefined) return {};
    return { io: text.split("\n").flatMap((line) => (line === "" ? [] : parseLine(line))) };
  },
};

const FILE = "io.stat";
const FIELDS = {
  rbytes: "readBytes",
  wbytes: "writtenBytes",
  rios: "reads",
  wios: "writes",
  dbytes: "discardedBytes",
  dios: "discards",
} as const satisfies Readonly<Record<string, keyof CgroupIoStats>>;

/**
 * `8:0 rbytes=1 wbytes=2 …`. Kernels before 6.6 may print a device without figures, also in front of the next device on the
 * same line; other keys, such as those of a cost model, are ignored.
 */
function parseLine(line: string): readonly CgroupIoStats[] {
  const words = line.split(" ").filter((word) => word !== "");
  const start = words.findLastIndex((word) => /^\d+:\d+$/.test(word));
  const device = words[start];
  if (device === undefined) throw unreadable(FILE, line, "a line that begins with a device");
  const figures = words.slice(start + 1);
  if (figures.length === 0) return [];
  const stats = { readBytes: 0, writtenBytes: 0, reads: 0, writes: 0, discardedBytes: 0, discards: 0 };
  for (const figure of figures) {
    const [key = "", value = ""] = figure.split("=");
    if (Object.hasOwn(FIELDS, key)) stats[FIELDS[key as keyof typeof FIELDS]] = parseCount(FILE, value);
  }
  return [{ device, ...stats }];
}
