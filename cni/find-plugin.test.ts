import { expect, test } from "bun:test";
import { findPlugin } from "./find-plugin.ts";

const modes: Readonly<Record<string, number>> = { "/a/bridge": 0o644, "/b/bridge": 0o755, "/b/tuning": 0o755 };
const files = {
  async stat(path: string) {
    const mode = modes[path];
    const kind = path === "/a/tuning" ? ("directory" as const) : ("file" as const);
    if (mode === undefined && kind === "file") return undefined;
    return { kind, mode: mode ?? 0o755, size: 0, modifiedMs: 0, inode: 1 };
  },
} as unknown as Parameters<typeof findPlugin>[0];

test("the first file of the name counts, even if it cannot be executed", async () => {
  expect(await findPlugin(files, ["/a", "/b"], "bridge")).toEqual({ path: "/a/bridge", isExecutable: false });
  expect(await findPlugin(files, ["/b", "/a"], "bridge")).toEqual({ path: "/b/bridge", isExecutable: true });
});

test("a folder of the name is no binary, and a name that no folder has is not found", async () => {
  expect(await findPlugin(files, ["/a", "/b"], "tuning")).toEqual({ path: "/b/tuning", isExecutable: true });
  expect(await findPlugin(files, ["/a", "/b"], "portmap")).toBeUndefined();
});
