import { expect, test } from "bun:test";
import { mkdtempSync, readdirSync, realpathSync, renameSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openBeneath } from "./bind-beneath.ts";
import { createMountCalls, type MountCalls } from "./mount-calls.ts";

/* The contract of `Mounts.bindBeneath` is in test/contract/bind-beneath.ts; this file tests what it does not show. */

const real = createMountCalls();
const descriptors = () => readdirSync("/proc/self/fd").length;

function inFolder(work: (folder: string) => void): void {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "berth-beneath-")));
  try {
    work(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("what is opened stays what it is, and every other descriptor is closed, also after a failure", () => {
  inFolder((folder) => {
    symlinkSync("/etc", join(folder, "leaving"));
    symlinkSync("nothing", join(folder, "dangling"));
    openBeneath(real, folder, "warm/up").close();
    const before = descriptors();
    for (let time = 0; time < 10; time++) {
      openBeneath(real, folder, `a/b/${time}`).close();
      for (const each of ["leaving", "dangling", "leaving/new", "dangling/new"])
        expect(() => openBeneath(real, folder, each)).toThrow();
    }
    expect(descriptors()).toBe(before);
    const opened = openBeneath(real, folder, "a/b");
    renameSync(join(folder, "a"), join(folder, "moved"));
    symlinkSync("/etc", join(folder, "a"));
    expect(opened.isFolder).toBe(true);
    expect(readdirSync(opened.path)).toHaveLength(10);
    opened.close();
  });
});

const answers: readonly [sentence: string, again: number, code: string | undefined][] = [
  ["a path that the kernel could not check while something was renamed is tried again", 100, undefined],
  ["a path that the kernel can never check is refused", 1000, "EAGAIN"],
  ["a kernel without openat2 is an error, and nothing is opened in another way", -1, "ENOSYS"],
];
for (const [sentence, again, code] of answers)
  test(sentence, () => {
    let tries = 0;
    const calls: Pick<MountCalls, "openat2"> = {
      openat2(input) {
        if (again < 0) return "ENOSYS";
        return ++tries <= again ? "EAGAIN" : real.openat2(input);
      },
    };
    inFolder((folder) => {
      const open = () => openBeneath(calls, folder, "");
      if (code === undefined) open().close();
      else expect(open).toThrow(expect.objectContaining({ name: "FilesError", code }));
    });
  });
