import { expect, test } from "bun:test";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { ensureOwnership, type Ownership } from "./ownership.ts";

const { signal } = new AbortController();

/** A volume with a file `deep/file` (0600); `mode` and `group` are those of its top folder. */
async function createVolume(mode = 0o755, group = 0) {
  const files = new FakeDisk(() => 0).at("/");
  await files.makeFolder("v", mode, group);
  await files.makeFolder("v/deep", 0o700, 0);
  await files.makeFile("v/deep/file", 0o600, "x", { group: 0 });
  const modes = async () => {
    const found = [await files.stat("v"), await files.stat("v/deep"), await files.stat("v/deep/file")];
    return found.map((stat) => `${stat?.mode.toString(8)} ${stat?.group}`);
  };
  return { files, modes };
}

const untouched = ["700 0", "600 0"];
const changed = ["2770 2000", "660 2000"];
const rows: readonly [sentence: string, top: readonly [mode: number, group: number], Partial<Ownership>, string[]][] = [
  ["without a policy all files change", [0o755, 0], {}, ["2775 2000", ...changed]],
  [
    "with Always also those of a top folder that is right",
    [0o2775, 2000],
    { policy: "Always" },
    ["2775 2000", ...changed],
  ],
  [
    "with OnRootMismatch none, if the top folder is right",
    [0o2770, 2000],
    { policy: "OnRootMismatch" },
    ["2770 2000", ...untouched],
  ],
  ["if it allows more, none either", [0o2777, 2000], { policy: "OnRootMismatch" }, ["2777 2000", ...untouched]],
  ["all, if its group is another one", [0o2770, 1], { policy: "OnRootMismatch" }, ["2770 2000", ...changed]],
  ["all, if its group may not write", [0o2750, 2000], { policy: "OnRootMismatch" }, ["2770 2000", ...changed]],
  [
    "all, if new files would not belong to the group",
    [0o770, 2000],
    { policy: "OnRootMismatch" },
    ["2770 2000", ...changed],
  ],
  [
    "for a read-only volume the group may read",
    [0o700, 0],
    { isReadOnly: true },
    ["2750 2000", "2750 2000", "640 2000"],
  ],
  [
    "a read-only volume needs no right to write",
    [0o2750, 2000],
    { isReadOnly: true, policy: "OnRootMismatch" },
    ["2750 2000", ...untouched],
  ],
];
for (const [sentence, [mode, group], other, expected] of rows)
  test(sentence, async () => {
    const { files, modes } = await createVolume(mode, group);
    const ownership: Ownership = { group: 2000, isReadOnly: false, policy: undefined, ...other };
    const isUnchanged = expected[1] === untouched[0];
    expect(await ensureOwnership(files, "v", ownership, signal)).toEqual(
      isUnchanged ? { outcome: "unchanged" } : { outcome: "changed", count: 3, failure: undefined },
    );
    expect(await modes()).toEqual(expected);
  });

test("the progress is counted in files, and a folder that is missing is an error", async () => {
  const { files } = await createVolume();
  const counts: number[] = [];
  const ownership = { group: 2000, isReadOnly: false, policy: "OnRootMismatch" } as const;
  await ensureOwnership(files, "v", ownership, signal, (count) => void counts.push(count));
  expect(counts).toEqual([1, 2, 3]);
  await expect(ensureOwnership(files, "none", ownership, signal)).rejects.toMatchObject({ code: "ENOENT" });
});
