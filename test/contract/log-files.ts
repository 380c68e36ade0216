import { expect, test } from "bun:test";
import { gunzipSync } from "node:zlib";
import type { Files } from "../../host/fs/files.ts";

/** The contract of `open` and `gzip`: a part of that of `Files`. */
export function testLogFiles(files: () => Files): void {
  test("open reads a file at any position, also after it was renamed, and no symlink", async () => {
    await files().write("opened", "hello", 0o600);
    const file = await files().open("opened");
    await files().rename("opened", "moved");
    const bytes = new Uint8Array(4);
    expect([await file.read(bytes, 3), await file.read(bytes, 5), await file.sizeBytes()]).toEqual([2, 0, 5]);
    expect(new TextDecoder().decode(bytes.subarray(0, 2))).toBe("lo");
    expect(file.inode).toBe((await files().stat("moved"))?.inode ?? -1);
    await file.close();
    await files().link("link", "moved");
    await expect(files().open("link")).rejects.toMatchObject({ code: "ESYMLINK" });
    await expect(files().open("none")).rejects.toMatchObject({ code: "ENOENT" });
    await expect(files().open(".")).rejects.toMatchObject({ code: "ENOTFILE" });
  });

  test("gzip compresses a file into a new one with its mode, and overwrites nothing", async () => {
    await files().write("log", "line\n".repeat(1000), 0o640);
    await files().gzip("log", "log.gz");
    expect(await files().stat("log.gz")).toMatchObject({ mode: 0o640 });
    const compressed = await files().readBeneath(".", "log.gz", 1000);
    expect(gunzipSync(compressed).toString()).toBe("line\n".repeat(1000));
    await expect(files().gzip("log", "log.gz")).rejects.toMatchObject({ code: "EEXIST" });
    await files().link("log-link", "log");
    await expect(files().gzip("log-link", "other.gz")).rejects.toMatchObject({ code: "ESYMLINK" });
    expect(await files().stat("other.gz")).toBeUndefined();
  });
}
