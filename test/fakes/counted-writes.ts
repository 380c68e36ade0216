import type { CgroupFiles } from "../../cgroups/files.ts";
import type { Systemd } from "../../cgroups/systemd/systemd.ts";

/** What was changed, in the order of the calls: `write FILE VALUE`, `make FOLDER`, `remove FOLDER`. */
export function recordWrites(files: CgroupFiles): { readonly files: CgroupFiles; readonly writes: string[] } {
  const writes: string[] = [];
  return {
    writes,
    files: {
      ...files,
      async write(file, value) {
        writes.push(`write ${file} ${value}`);
        await files.write(file, value);
      },
      async makeFolder(folder) {
        const isNew = await files.makeFolder(folder);
        if (isNew) writes.push(`make ${folder}`);
        return isNew;
      },
      async removeFolder(folder) {
        writes.push(`remove ${folder}`);
        await files.removeFolder(folder);
      },
    },
  };
}

/** The calls to systemd, as `start UNIT`, `set UNIT`, `stop UNIT`. */
export function recordCalls(systemd: Systemd): { readonly systemd: Systemd; readonly calls: string[] } {
  const calls: string[] = [];
  return {
    calls,
    systemd: {
      async startSlice(unit, parent, properties) {
        calls.push(`start ${unit}`);
        return await systemd.startSlice(unit, parent, properties);
      },
      async setProperties(unit, properties) {
        calls.push(`set ${unit}`);
        await systemd.setProperties(unit, properties);
      },
      async stop(unit) {
        calls.push(`stop ${unit}`);
        await systemd.stop(unit);
      },
    },
  };
}
