import { type Controller, parseLimit, readCount } from "./controller.ts";

/** `pids.max` and `pids.current`. https://docs.kernel.org/admin-guide/cgroup-v2.html#pid */
export const pids: Controller = {
  limitFiles: ({ pidsMax }) => (pidsMax === undefined ? [] : [{ file: "pids.max", value: String(pidsMax) }]),
  limits(read) {
    const text = read("pids.max");
    return text === undefined ? {} : { pidsMax: parseLimit("pids.max", text) };
  },
  stats(read) {
    const current = readCount(read, "pids.current");
    return current === undefined ? {} : { pids: { current } };
  },
};
